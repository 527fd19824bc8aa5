package output

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store/pack"
)

// SharedRuns prints the progress of runs: a table for each, with a row for each worker and one for their sum.
func SharedRuns(out io.Writer, runs []*pack.SharedRun, now time.Time) error {
	for i, r := range runs {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, terminal.Plain(r.Run))
		var rows [][]string
		var left time.Duration // of the slowest
		for i, w := range r.Workers {
			name := fmt.Sprintf("%d/%d", i+1, len(r.Workers))
			if w == nil {
				rows = append(rows, []string{name, "not begun"})
				continue
			}
			left = max(left, w.Left())
			rows = append(rows, countsRow(name, w, w.Left(), now))
		}
		rows = append(rows, countsRow("total", &r.Total, left, now))
		if err := terminal.Table(out, []string{"worker", "done", "keys", "values replaced", "length", "allocated", "problems", "left", "saved"}, rows); err != nil {
			return err
		}
	}
	return nil
}

func countsRow(name string, c *pack.Counts, left time.Duration, now time.Time) []string {
	return []string{
		name, fmt.Sprintf("%.0f%%", 100*c.Done), strconv.FormatInt(c.Keys, 10), strconv.FormatInt(c.Replaced, 10),
		terminal.Size(c.StoredBefore) + " -> " + terminal.Size(c.StoredAfter),
		fmt.Sprintf("%s -> %s (%s)", terminal.Size(c.AllocatedBefore), terminal.Size(c.AllocatedAfter), change(c.AllocatedBefore, c.AllocatedAfter)),
		strconv.FormatInt(c.Problems, 10), left.Round(time.Second).String(), now.Sub(c.Updated).Round(time.Second).String() + " ago",
	}
}
