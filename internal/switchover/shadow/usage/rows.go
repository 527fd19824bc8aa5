package usage

import (
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// Row compares one figure of both targets.
type Row struct {
	What          string
	Control, Test float64
	Disk          bool // bytes on disk
	Last          bool // measured at the end of the run
	Show          func(float64) string
}

// Ratio returns the difference of test to control in percent.
func (r Row) Ratio() string {
	if r.Control <= 0 {
		return ""
	}
	return fmt.Sprintf("%+.1f%%", 100*(r.Test/r.Control-1))
}

func size(n float64) string { return terminal.Size(int64(n)) }

func seconds(n float64) string {
	return time.Duration(n * float64(time.Second)).Round(10 * time.Millisecond).String()
}

// Rows returns storage at the beginning and the end, and the use of CPU and disks in between. begin and end
// may be nil.
func Rows(begin, end *Both) (rows []Row) {
	for _, m := range []struct {
		when string
		of   *Both
	}{{"at the beginning", begin}, {"at the end", end}} {
		if m.of == nil {
			continue
		}
		c, t := m.of.Control, m.of.Test
		if c.Server > 0 && t.Server > 0 {
			rows = append(rows, Row{What: c.ServerBy + ", " + m.when, Control: float64(c.Server), Test: float64(t.Server), Show: size})
		}
		if c.Disk > 0 && t.Disk > 0 {
			rows = append(rows, Row{What: "on disk (" + diskBy(c.DiskBy, t.DiskBy) + "), " + m.when, Control: float64(c.Disk), Test: float64(t.Disk), Disk: true, Last: m.of == end, Show: size})
		}
	}
	if begin == nil || end == nil {
		return rows
	}
	for _, m := range []struct {
		what string
		of   func(Usage) float64
		show func(float64) string
	}{
		{"CPU of the server", func(u Usage) float64 { return u.CPU }, seconds},
		{"read from disk", func(u Usage) float64 { return float64(u.Read) }, size},
		{"written to disk", func(u Usage) float64 { return float64(u.Written) }, size},
	} {
		c, t := m.of(end.Control)-m.of(begin.Control), m.of(end.Test)-m.of(begin.Test)
		if c > 0 && t >= 0 {
			rows = append(rows, Row{What: m.what, Control: c, Test: t, Show: m.show})
		}
	}
	return rows
}

func diskBy(control, test string) string {
	if control == test {
		return control
	}
	return control + ", " + test
}

// Notes returns figures that could not be read, and remarks on filesystems.
func Notes(begin, end *Both) (notes []string) {
	for _, m := range []*Both{begin, end} {
		if m != nil {
			notes = append(append(notes, m.Control.lines("control")...), m.Test.lines("test")...)
		}
	}
	slices.Sort(notes)
	return slices.Compact(notes)
}

func (u *Usage) lines(name string) (notes []string) {
	for _, why := range u.Missing {
		notes = append(notes, "Not known of "+name+": "+why)
	}
	for _, note := range u.Notes {
		notes = append(notes, name+": "+note)
	}
	return notes
}
