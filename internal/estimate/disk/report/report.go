package report

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/internal/estimate/disk"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// Report is the estimate for a directory. Its JSON is a contract: fields are added, never renamed.
type Report struct {
	Path       string             `json:"path"`
	Filesystem string             `json:"filesystem"`
	Results    []*disk.Result     `json:"results"` // one per recordsize
	Space      *Space             `json:"space,omitempty"`
	Advice     []string           `json:"advice"`
	OnBtrfs    bool               `json:"on_btrfs,omitempty"`              // it is on btrfs now: only compsize can tell its present size
	Days       map[string]float64 `json:"days_until_80_percent,omitempty"` // by setting; "now": uncompressed
}

// Space is the space of the filesystem that holds the directory now, in bytes.
type Space struct {
	Total int64 `json:"total_bytes"`
	Used  int64 `json:"used_bytes"`
}

// New returns a report on a directory, without results.
func New(path, filesystem string) *Report {
	r := &Report{Path: path, Filesystem: filesystem}
	r.Space, r.OnBtrfs = spaceOf(path)
	return r
}

const btrfsMagic = 0x9123683e

// spaceOf returns the space of the filesystem that holds a path. It returns none for btrfs, which reports
// only the lengths of files, not their size on disk, so that the usage without them is unknown.
func spaceOf(path string) (space *Space, onBtrfs bool) {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil || st.Blocks == 0 {
		return nil, false
	}
	if uint32(st.Type) == btrfsMagic {
		return nil, true
	}
	total := int64(st.Blocks) * int64(st.Bsize)
	return &Space{Total: total, Used: total - int64(st.Bfree)*int64(st.Bsize)}, false
}

// used returns the bytes in use if the files took takes bytes instead of their present size.
func (s *Space) used(r *disk.Result, takes int64) int64 {
	return max(s.Used-r.Allocated+takes, 0)
}

// fullShare is the share in use from which copy-on-write filesystems get slow.
const fullShare = 0.80

// Grow computes when the data, growing by perDay bytes per day, fills 80 % of a filesystem of the present
// size, if nothing else grows.
func (r *Report) Grow(perDay int64) {
	if perDay == 0 || r.Space == nil {
		return
	}
	left := func(used int64, ratio float64) float64 {
		return max(fullShare*float64(r.Space.Total)-float64(used), 0) / (float64(perDay) / ratio)
	}
	r.Days = map[string]float64{"now": left(r.Space.Used, 1)}
	for _, result := range r.Results {
		for _, e := range result.Estimates {
			r.Days[e.Setting] = left(r.Space.used(result, e.Takes()), e.Ratio)
		}
	}
}

// Print writes the report as text for a terminal.
func (r *Report) Print(out io.Writer) error {
	first := r.Results[0]
	fmt.Fprintf(out, "%s: %s, %s\n\n", r.Path, count(first.Files, "file", "files"), terminal.Size(first.Bytes))
	if err := terminal.Table(out, r.header(), r.rows()); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if r.Space != nil {
		fmt.Fprintf(out, "The current filesystem: %s, %.0f%% in use", terminal.Size(r.Space.Total), 100*float64(r.Space.Used)/float64(r.Space.Total))
		if r.Days != nil {
			fmt.Fprintf(out, ", and 80%% in %.0f days without a change", r.Days["now"])
		}
		fmt.Fprintln(out, ".")
	}
	if first.Computed < first.Records {
		fmt.Fprintln(out, "Computed on a sample (--sample 0 for all); ± is a 95 % interval.")
	}
	fmt.Fprintln(out, r.errorWords())
	if r.OnBtrfs {
		fmt.Fprintln(out, "It is on btrfs now: only compsize knows the space in use there, so it is not shown.")
	}
	for _, line := range leftOut(first) {
		fmt.Fprintln(out, line)
	}
	for _, a := range r.Advice {
		fmt.Fprintf(out, "- %s\n", a)
	}
	return nil
}

// errorWords explains the error column.
func (r *Report) errorWords() string {
	if r.Results[0].Estimates[0].Measured {
		return "Measured: the sample was stored in a btrfs on a loop device."
	}
	return "Error: the most by which computed sizes of directories differed from the filesystem's own."
}

func (r *Report) parity() bool { return r.Results[0].Estimates[0].RaidBytes > 0 }

func (r *Report) header() []string {
	tool := map[string]string{"zfs": "zfs get compressratio", "btrfs": "compsize"}[r.Filesystem]
	header := []string{"setting", "takes", "error", "ratio", "+-", tool}
	if r.Space != nil {
		header = append(header, "in use")
	}
	if r.Days != nil {
		header = append(header, "days to 80%")
	}
	if r.parity() {
		header = append(header, "with parity")
	}
	return header
}

func (r *Report) rows() (rows [][]string) {
	for _, result := range r.Results {
		for _, e := range result.Estimates {
			row := []string{e.Setting, terminal.Size(e.Takes()), within(&e), fmt.Sprintf("%.2f", e.Ratio), fmt.Sprintf("%.2f", e.Margin), e.Printed}
			if r.Space != nil {
				row = append(row, fmt.Sprintf("%.0f%%", 100*float64(r.Space.used(result, e.Takes()))/float64(r.Space.Total)))
			}
			if r.Days != nil {
				row = append(row, fmt.Sprintf("%.0f", r.Days[e.Setting]))
			}
			if r.parity() {
				row = append(row, terminal.Size(e.RaidBytes))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// within formats the maximum error of such estimates, compared with real filesystems.
func within(e *disk.Estimate) string {
	switch {
	case e.Measured:
		return "measured"
	case e.Error == 0:
		return "none"
	}
	return fmt.Sprintf("±%.2g%%", 100*e.Error)
}

// leftOut describes what the figures exclude, or include in an unexpected way.
func leftOut(r *disk.Result) (lines []string) {
	for _, l := range []struct {
		n              int64
		one, more, say string
	}{
		{r.Unread, "file or directory", "files or directories", "that could not be read"},
		{r.Changed, "file", "files", "that were deleted meanwhile"},
		{r.Links, "symbolic link", "symbolic links", "(pg_wal and tablespaces often are): give their targets to include them"},
		{r.Mounts, "other filesystem", "other filesystems", "mounted below"},
	} {
		if l.n > 0 {
			lines = append(lines, fmt.Sprintf("Left out: %s %s.", count(l.n, l.one, l.more), l.say))
		}
	}
	if r.Fixed > 0 {
		lines = append(lines, fmt.Sprintf("Never compressed by btrfs: %s with nodatacow or ever fallocated, %s.", count(r.Fixed, "file", "files"), terminal.Size(r.FixedSize)))
	}
	return lines
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
