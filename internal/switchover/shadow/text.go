package shadow

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow/usage"
)

// Text writes the report as a table for people.
func (r *Report) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s: %s%s\n", r.Outcome, r.meaning(), r.extent())
	for _, why := range r.Reasons {
		fmt.Fprintf(t, "  %s\n", why)
	}
	for _, what := range r.Next {
		fmt.Fprintf(t, "  what to do: %s\n", what)
	}
	fmt.Fprintf(t, "\nmetric\tmargin\ttest to control\tinterval\tmachines\tbatches\tneeded\n")
	for _, m := range r.Metrics {
		fmt.Fprintln(t, m.row())
	}
	if r.MarginAbsolute > 0 {
		fmt.Fprintf(t, "differences below %v are always inside the margin: the margins above include them where they exceed the share\n", r.MarginAbsolute)
	}
	r.storageText(t)
	r.names(t)
	r.plansText(t)
	r.answers(t)
	return t.Flush()
}

// meaning returns the outcome in words.
func (r *Report) meaning() string {
	switch r.Outcome {
	case "PASS":
		return "the test target is as fast as the control within the margins, and its answers are equal"
	case "FAIL":
		if len(r.Slower) > 0 {
			return "slower beyond the margin: " + strings.Join(r.Slower, ", ")
		}
		return "the test target is slower than the margins allow"
	case "VOID":
		return "the run can't be judged"
	}
	if r.Withheld != "" {
		return "the test target is as fast as the control within the margins, but " + r.Withheld
	}
	needed := ""
	if n := r.toCome(); n > 0 {
		needed = fmt.Sprintf("about %v more of such traffic is needed for a verdict", rounded(time.Duration(n)*r.Batch))
	}
	switch {
	case r.Ended != "" && needed != "":
		return fmt.Sprintf("the mirror ended before a verdict: %s; %s", r.Ended, needed)
	case r.Ended != "":
		return "the mirror ended before a verdict: " + r.Ended
	}
	return cmp.Or(needed, "not enough traffic for a verdict yet")
}

// extent returns how many of the answers the first line is based on.
func (r *Report) extent() string {
	switch n := r.Compared.answers(); {
	case n == 0:
		return ""
	case r.Share < mostlyCompared:
		return fmt.Sprintf("; WARNING: only %s of %d answers were compared, for the reasons below", shareOf(r.Share), n)
	default:
		return fmt.Sprintf("; %s of %d answers were compared", shareOf(r.Share), n)
	}
}

// shareOf formats a share, rounded down, so that only a complete one is shown as 100 %.
func shareOf(x float64) string { return fmt.Sprintf("%.4g %%", math.Floor(1000*x)/10) }

// rounded omits the seconds of long durations.
func rounded(d time.Duration) string {
	if d < 10*time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// toCome returns how many more batches are needed; 0: not known.
func (r *Report) toCome() int {
	most := 0
	for _, m := range r.Metrics {
		if m.Judged {
			most = max(most, m.Needed-m.Batches)
		}
	}
	return most
}

func (m MetricState) row() string {
	ratio, interval, needed := "unknown yet", "unknown yet", "unknown yet"
	if m.Batches > 0 {
		ratio = percent(m.Ratio)
	}
	if m.High >= 0 && m.Batches > 0 {
		interval = fmt.Sprintf("%s to %s", percent(m.Low), percent(m.High))
	}
	if m.Needed > 0 {
		needed = fmt.Sprint(m.Needed)
	}
	if m.Drifts {
		needed = "it drifts: more batches, or an A/A phase"
	}
	if !m.Judged {
		needed = "not judged: too few operations a batch"
	}
	machines := "not measured"
	if m.Baseline > 0 {
		machines = percent(m.Machines)
	}
	return fmt.Sprintf("%s\t%+.0f%%\t%s\t%s\t%s\t%d\t%s", m.Name, 100*m.Allowed, ratio, interval, machines, m.Batches, needed)
}

// percent formats a ratio as a difference.
func percent(ratio float64) string {
	return fmt.Sprintf("%+.1f%%", math.Round(1000*(ratio-1))/10+0) // + 0: no -0
}

func (r *Report) storageText(w io.Writer) {
	if rows := usage.Rows(r.Begin, r.End); len(rows) > 0 {
		fmt.Fprintf(w, "\nstorage, CPU, I/O\tcontrol\ttest\ttest to control\n")
		for _, u := range rows {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.What, u.Show(u.Control), u.Show(u.Test), u.Ratio())
		}
	}
	for _, note := range usage.Notes(r.Begin, r.End) {
		fmt.Fprintln(w, note)
	}
}

// shownNames limits the fingerprints that are shown, those with most operations.
const shownNames = 20

func (r *Report) names(w io.Writer) {
	if len(r.Names) == 0 {
		return
	}
	fmt.Fprintf(w, "\ncount\tp50\tp99\tp50 of control\tp99 of control\tp50 to control\toperation\n")
	for _, n := range r.Names[:min(len(r.Names), shownNames)] {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Count, latency(n.Test.P50), latency(n.Test.P99), latency(n.Control.P50), latency(n.Control.P99), n.difference(), n.Name)
	}
	if n := len(r.Drifts); n > 0 {
		fmt.Fprintf(w, "%d operations drift too slowly for a verdict yet, such as %s: more batches or an A/A phase are needed\n", n, r.Drifts[0])
	}
	if r.Unnamed > 0 {
		fmt.Fprintf(w, "%d operations were judged only with all reads or writes, not one by one: there are more than %d kinds of operations\n", r.Unnamed, maxNames)
	}
	if more := len(r.Names) - shownNames; more > 0 {
		fmt.Fprintf(w, "and %d more: --json has all\n", more)
	}
}

// fewBatches is the number of batches below which an operation's ratio is not shown.
const fewBatches = 8

func (n NameState) difference() string {
	if n.Batches < fewBatches {
		return "too few"
	}
	return percent(n.Ratio)
}

func latency(us float64) string {
	if us >= 1000 {
		return fmt.Sprintf("%.2fms", us/1000)
	}
	return fmt.Sprintf("%.0fµs", us)
}

// plansText shows plans that differ, and names the others.
func (r *Report) plansText(w io.Writer) {
	if len(r.Plans) > 0 {
		fmt.Fprintf(w, "\nPlans of the worst operations, with * at steps that the other plan does not have:\n")
	}
	for _, p := range r.Plans {
		fmt.Fprintf(w, "  %s: %s\n", p.Name, p.Words())
		if p.Alike {
			continue
		}
		for _, line := range append(append([]string{"control"}, p.Control.Lines(p.Test)...), append([]string{"test"}, p.Test.Lines(p.Control)...)...) {
			fmt.Fprintf(w, "    %s\n", line)
		}
	}
}

// answers lists what was compared, and everything that was not.
func (r *Report) answers(w io.Writer) {
	c := r.Compared
	fmt.Fprintf(w, "\n%d operations of %d connections went to both targets, %d reads were left out by --reads.\n", r.Operations, r.Connections, r.Skipped)
	fmt.Fprintf(w, "Answers: %d equal, %d different, %d different because data had expired, %d compared by success only, %d not in order.\n", c.Equal, c.Different, c.Expired, c.Timed, c.Unordered)
	if r.Replay != nil {
		fmt.Fprintln(w, r.Replay)
	}
	for _, what := range slices.Sorted(maps.Keys(r.Left)) {
		fmt.Fprintf(w, "Not sent: %s: %d\n", what, r.Left[what])
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "Differs by nature: %s\n", note)
	}
	if n := c.Diverged - c.Refused; n > 0 {
		fmt.Fprintf(w, "Production answered %d of the equal ones differently, as happens when clients change the same key at the same time.\n", n)
	}
	if c.Repeated > 0 {
		fmt.Fprintf(w, "%d were undone and repeated at a target until it answered like production; their latency is not judged.\n", c.Repeated)
	}
	for _, what := range slices.Sorted(maps.Keys(r.Refused)) {
		fmt.Fprintf(w, "Refused by both targets, not by production: %s: %d\n", what, r.Refused[what])
	}
	if c.Lost[control]+c.Lost[test] > 0 {
		fmt.Fprintf(w, "Not answered: %d by control, %d by test.\n", c.Lost[control], c.Lost[test])
	}
	if c.UnderWay > 0 {
		fmt.Fprintf(w, "Outstanding when the mirror was turned off, and counted at neither target: %d.\n", c.UnderWay)
	}
	if r.Dropped+r.Unmirrored > 0 {
		fmt.Fprintf(w, "Connections that were mirrored incompletely: %d because their bytes could not be parsed or did not fit into memory, %d because of unsupported commands.\n", r.Dropped, r.Unmirrored)
	}
	for _, why := range slices.Sorted(maps.Keys(r.Why)) {
		fmt.Fprintf(w, "  %s: %d\n", why, r.Why[why])
	}
	for _, d := range r.Differences {
		fmt.Fprintf(w, "  %s %s\n", d.At.Format(time.TimeOnly), d)
	}
	if len(r.Data) > 0 {
		tellData(w, r.Data)
	}
	if r.DataTrouble != "" {
		fmt.Fprintf(w, "The data comparison is incomplete: %s\n", r.DataTrouble)
	}
	if !r.SelfTested {
		fmt.Fprintln(w, "The self-test was skipped.")
	}
	if r.Ended != "" {
		fmt.Fprintf(w, "The mirror ended: %s.\n", r.Ended)
	}
}

// Line returns the progress in one line.
func (r *Report) Line() string {
	var parts []string
	for _, m := range r.Metrics {
		if m.Batches > 0 && m.High >= 0 {
			parts = append(parts, fmt.Sprintf("%s %s (%s to %s)", m.Name, percent(m.Ratio), percent(m.Low), percent(m.High)))
		}
	}
	done := fmt.Sprintf("%d batches", len(r.Series))
	if len(parts) == 0 {
		parts = append(parts, "no result yet")
	}
	return fmt.Sprintf("%s, %s, %d operations, %d different: %s", r.Phase, done, r.Operations, r.Compared.Different, strings.Join(parts, ", "))
}
