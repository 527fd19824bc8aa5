package report

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// Print writes the report as text for a terminal.
func (r *Report) Print(out io.Writer) error {
	t := &r.Total
	fmt.Fprintf(out, "%s saved of %s since %s: %s, and %s net (%s a month at this rate).\n\n",
		size(t.SavedBytes), size(t.RawBytes), day(r.After.From), t.Saving.text(), terminal.Dollars(t.Net), terminal.Dollars(t.NetMonth))
	var rows [][]string
	for _, row := range r.Rows {
		rows = append(rows, append([]string{row.Gateway}, row.cells(row.Rule)...))
	}
	rows = append(rows, append([]string{"all"}, t.cells("")...))
	if err := terminal.Table(out, []string{"gateway", "rule", "before", "after", "saved", "of it", "cpu", "traffic", "net"}, rows); err != nil {
		return err
	}
	if text := r.trainingText(); text != "" {
		fmt.Fprintln(out, text)
	}
	if err := r.printPhases(out); err != nil {
		return err
	}
	if b := r.Bill; b != nil {
		fmt.Fprintln(out, "\n"+b.text())
	}
	for _, s := range r.Sources {
		if s.Oldest != nil && s.Oldest.After(r.From.Add(time.Hour)) {
			fmt.Fprintf(out, "\n%s has samples only since %s.", s.Name, day(*s.Oldest))
		}
	}
	fmt.Fprintln(out, "\nMethod:")
	for i, m := range r.Method {
		fmt.Fprintf(out, "%d. %s\n", i+1, m)
	}
	return nil
}

// trainingText says how much CPU training took since the period began, "" if none.
func (r *Report) trainingText() string {
	if r.TrainingCPU == 0 {
		return ""
	}
	return fmt.Sprintf("Training dictionaries took %s of CPU since %s, which is not in these figures.", cpu(r.TrainingCPU), day(r.From))
}

func (r *Row) cells(name string) []string {
	return []string{name, size(r.RawBytes), size(r.StoredBytes), size(r.SavedBytes), r.Saving.text(), cpu(r.CPUSeconds), terminal.Dollars(r.Traffic), terminal.Dollars(r.Net)}
}

func (r *Report) printPhases(out io.Writer) error {
	if r.Before == nil {
		return nil
	}
	fmt.Fprintf(out, "\nOn the wire, for the traffic received:\n")
	var rows [][]string
	for _, p := range []struct {
		name string
		*Phase
	}{{"before", r.Before}, {"after", &r.After}} {
		rows = append(rows, []string{p.name, day(p.From), size(p.InPerDay), size(p.OutPerDay), fmt.Sprintf("%.3f", p.OutPerIn.Value)})
	}
	if err := terminal.Table(out, []string{"", "from", "received a day", "sent a day", "sent per byte received"}, rows); err != nil {
		return err
	}
	if r.WireSaving != nil {
		fmt.Fprintf(out, "Saved of what would have been sent: %s.\n", r.WireSaving.text())
	}
	return nil
}

func (s Share) text() string {
	if s.Low == nil {
		return fmt.Sprintf("%.1f%%", 100*s.Value)
	}
	return fmt.Sprintf("%.1f%% (%.1f to %.1f)", 100*s.Value, 100**s.Low, 100**s.High)
}

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

func cpu(seconds float64) string {
	if seconds < 3600 {
		return fmt.Sprintf("%.3g s", seconds)
	}
	return fmt.Sprintf("%.3g h", seconds/3600)
}

func size(bytes float64) string { return terminal.Size(int64(math.Round(bytes))) }
