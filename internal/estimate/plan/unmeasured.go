package plan

import (
	"fmt"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// couldBe describes the result of the best candidate for a group that is left alone, as the end of a
// sentence.
func (g *GroupPlan) couldBe() string {
	o := g.best()
	if o == nil || g.Foreign != nil || o.CompressMicros+o.OpenMicros == 0 || float64(o.After) > (1-minShown)*float64(g.Now) {
		return ""
	}
	s := fmt.Sprintf(" (%s: %s, %s us to compress, %s us to decompress", o.Name, terminal.Ratio(o.Ratio), formatMicros(o.CompressMicros), formatMicros(o.OpenMicros))
	for _, l := range o.Latency {
		s += fmt.Sprintf("; on %s a read %s, a write %s", l.Link, faster(l.ReadMicros), faster(l.WriteMicros))
	}
	return s + ")"
}

// unmeasured lists the groups that were not measured, and how to continue.
func (r *Report) unmeasured() (lines []string) {
	late, bytes := 0, int64(0)
	for _, g := range r.Groups {
		switch g.Not {
		case "":
		case timeWasUp:
			late, bytes = late+1, bytes+g.Now
		default:
			lines = append(lines, fmt.Sprintf("Not measured: %s: %s.", shorten(g.label(), 60), g.Not))
		}
	}
	if late > 0 {
		lines = append(lines, fmt.Sprintf("Not measured: %s, %s: %s before their turn. They count with their present size. Increase --max-time, or plan some of them with --match.",
			plural(late, "group", "groups"), terminal.Size(bytes), timeWasUp))
	}
	if r.Rest.Groups > 0 {
		lines = append(lines, fmt.Sprintf("Not measured: %s with %s of the bytes. They count with their present size. Increase --groups, or plan some of them with --match.",
			plural(r.Rest.Groups, "small group", "small groups"), percentOf(float64(r.Rest.Bytes), float64(r.Now))))
	}
	return lines
}
