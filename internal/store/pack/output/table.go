package output

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store/pack"
)

// Table prints the report for people. done is a participle for what happened to values, such as "packed"; "" for a
// run that changes none.
func (s *Printer) Table(r *pack.Report, done string) error {
	if s.asJSON {
		return nil
	}
	rows := [][]string{
		{"keys looked at", fmt.Sprintf("%d of %d", r.Keys, r.Total)},
		{"values read", strconv.FormatInt(r.Values, 10)},
	}
	add := func(what, format string, args ...any) {
		rows = append(rows, []string{what, fmt.Sprintf(format, args...)})
	}
	if done != "" {
		add("values "+done, "%d", r.Replaced)
	}
	if r.Recoded > 0 {
		add("of these, recoded: other bytes, same content", "%d", r.Recoded)
	}
	if r.Replaced > 0 {
		add("length of these values", "%s -> %s", terminal.Size(r.StoredBefore), terminal.Size(r.StoredAfter))
		add("allocated for them, computed", "%s -> %s (%s)", terminal.Size(r.CostBefore), terminal.Size(r.CostAfter), change(r.CostBefore, r.CostAfter))
	}
	if r.Probed > 0 {
		add("MEMORY USAGE", "%s -> %s in a sample of %d keys (%s)", terminal.Size(r.ProbeBefore), terminal.Size(r.ProbeAfter), r.Probed, change(r.ProbeBefore, r.ProbeAfter))
	}
	if r.Rebuilt > 0 {
		add("hashes converted to listpacks", "%d", r.Rebuilt)
	}
	for _, setting := range slices.Sorted(maps.Keys(r.Opened)) {
		add("opens: "+setting, "%d", r.Opened[setting])
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Skipped)) {
		if reason != pack.Opened {
			add("left: "+string(reason), "%d", r.Skipped[reason])
		}
	}
	if r.Conflicts > 0 {
		add("changed by a client first", "%d times", r.Conflicts)
	}
	if r.Problems > 0 {
		add("problems", "%d", r.Problems)
	}
	if r.TuplesBefore > 0 {
		add("tuples of these spaces", "%s -> %s (%s)", terminal.Size(r.TuplesBefore), terminal.Size(r.TuplesAfter), change(r.TuplesBefore, r.TuplesAfter))
	}
	add("used memory, other activity included", "%s -> %s", terminal.Size(r.UsedBefore), terminal.Size(r.UsedAfter))
	if r.TrainingCPU > 0 {
		add("CPU of training dictionaries", "%.2fs", r.TrainingCPU.Seconds())
	}
	add("time", "%s", r.Took.Round(time.Millisecond))
	return terminal.Table(s.out, []string{"what", "how much"}, rows)
}

func change(before, after int64) string {
	if before == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%+.1f%%", 100*(float64(after)/float64(before)-1))
}
