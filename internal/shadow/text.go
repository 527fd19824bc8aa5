package shadow

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Text writes the report as a table for people.
func (r *Report) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s: %s\n", r.Outcome, r.meaning())
	for _, why := range r.Reasons {
		fmt.Fprintf(t, "  %s\n", why)
	}
	fmt.Fprintf(t, "\nmetric\tmargin\ttest to control\tinterval\tmachines\tbatches\tneeded\n")
	for _, m := range r.Metrics {
		fmt.Fprintln(t, m.row())
	}
	r.names(t)
	r.answers(t)
	return t.Flush()
}

// meaning is the outcome in words.
func (r *Report) meaning() string {
	switch r.Outcome {
	case "PASS":
		return "the test target is as fast as the control within the margins, and answers alike"
	case "FAIL":
		if len(r.Slower) > 0 {
			return "slower beyond the margin: " + strings.Join(r.Slower, ", ")
		}
		return "the test target is slower than the margins allow"
	case "VOID":
		return "the targets can't be compared"
	}
	if n := r.toCome(); n > 0 {
		return fmt.Sprintf("about %v more of such traffic are needed for a verdict", rounded(time.Duration(n)*r.Batch))
	}
	return "not enough traffic for a verdict yet"
}

// rounded leaves out the seconds of what takes long.
func rounded(d time.Duration) string {
	if d < 10*time.Minute {
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// toCome is how many batches are still needed; 0: not known.
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
	interval, needed := "not known yet", "not known yet"
	if m.High >= 0 && m.Batches > 0 {
		interval = fmt.Sprintf("%s to %s", percent(m.Low), percent(m.High))
	}
	if m.Needed > 0 {
		needed = fmt.Sprint(m.Needed)
	}
	if !m.Judged {
		needed = "not judged: too few operations a batch"
	}
	machines := "not measured"
	if m.Baseline > 0 {
		machines = percent(m.Machines)
	}
	return fmt.Sprintf("%s\t%+.0f%%\t%s\t%s\t%s\t%d\t%s", m.Name, 100*m.Margin, percent(m.Ratio), interval, machines, m.Batches, needed)
}

// percent writes a ratio as a difference.
func percent(ratio float64) string { return fmt.Sprintf("%+.1f%%", 100*(ratio-1)) }

// shownNames are the fingerprints with most operations.
const shownNames = 20

func (r *Report) names(w io.Writer) {
	if len(r.Names) == 0 {
		return
	}
	fmt.Fprintf(w, "\noperation\tcount\tp50\tp99\tp50 of control\tp99 of control\tp50 to control\n")
	for _, n := range r.Names[:min(len(r.Names), shownNames)] {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", n.Name, n.Count, latency(n.Test.P50), latency(n.Test.P99), latency(n.Control.P50), latency(n.Control.P99), percent(n.Ratio))
	}
	if more := len(r.Names) - shownNames; more > 0 {
		fmt.Fprintf(w, "and %d more: --json has all\n", more)
	}
}

func latency(us float64) string {
	if us >= 1000 {
		return fmt.Sprintf("%.2fms", us/1000)
	}
	return fmt.Sprintf("%.0fµs", us)
}

// answers says what was compared, and all that was not.
func (r *Report) answers(w io.Writer) {
	c := r.Compared
	fmt.Fprintf(w, "\n%d operations of %d connections went to both targets, %d reads were left out by --reads.\n", r.Operations, r.Connections, r.Skipped)
	fmt.Fprintf(w, "Answers: %d alike, %d different, %d differ as their key expired, %d compared by success alone, %d not in order.\n", c.Equal, c.Different, c.Expired, c.Timed, c.Unordered)
	if r.Replay != nil {
		fmt.Fprintln(w, r.Replay)
	}
	for _, what := range sortedKeys(r.Left) {
		fmt.Fprintf(w, "Not sent: %s: %d\n", what, r.Left[what])
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "Differs by nature: %s\n", note)
	}
	if n := c.Diverged - c.Refused; n > 0 {
		fmt.Fprintf(w, "Production answered %d of those that are alike otherwise, as it does when clients change the same key at the same moment.\n", n)
	}
	for _, what := range sortedKeys(r.Refused) {
		fmt.Fprintf(w, "Both targets refused what production did: %s: %d\n", what, r.Refused[what])
	}
	if c.Lost[control]+c.Lost[test] > 0 {
		fmt.Fprintf(w, "Not answered: %d by control, %d by test.\n", c.Lost[control], c.Lost[test])
	}
	if r.Dropped+r.Unmirrored > 0 {
		fmt.Fprintf(w, "Connections that were not mirrored to their end: %d since they could not be followed, %d by what they do.\n", r.Dropped, r.Unmirrored)
	}
	for _, why := range sortedKeys(r.Why) {
		fmt.Fprintf(w, "  %s: %d\n", why, r.Why[why])
	}
	for _, d := range r.Differences {
		fmt.Fprintf(w, "  %s %s (operation %d): control answered %s, test %s\n", d.At.Format(time.TimeOnly), d.Name, d.Number, d.Control, d.Test)
	}
	if !r.SelfTested {
		fmt.Fprintln(w, "The self-test was not done.")
	}
	if r.Ended != "" {
		fmt.Fprintf(w, "The mirror ended: %s.\n", r.Ended)
	}
}

func sortedKeys(m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Line is the progress in a line.
func (r *Report) Line() string {
	var parts []string
	for _, m := range r.Metrics {
		if m.Batches > 0 && m.High >= 0 {
			parts = append(parts, fmt.Sprintf("%s %s (%s to %s)", m.Name, percent(m.Ratio), percent(m.Low), percent(m.High)))
		}
	}
	done := fmt.Sprintf("%d batches", len(r.Series))
	if len(parts) == 0 {
		parts = append(parts, "nothing to say yet")
	}
	return fmt.Sprintf("%s, %s, %d operations, %d different: %s", r.Phase, done, r.Operations, r.Compared.Different, strings.Join(parts, ", "))
}
