package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/internal/foreign"
	"github.com/cinch-layer/cinch/internal/ui"
)

// Values that a client's library has compressed gain nothing as they are. Where most of a group's sample opens as a
// library's values, the candidates are measured a second time, on what the values hold:
//
//	library's value -> content -> envelope        a rule with its format, and a packer that may recode
//	library's value -> as it is                   what the plan recommends: the bytes may be the application's own
//
// Bytes are those of the values as they are held, before and after: the content itself is stored nowhere.
//
// What is shorter than any library compresses counts for neither side: a hash has many such fields.
const fewOpen = 20 // one in so many of the others has to open, or the group is taken for none of a library's

// Foreign is what a group holds that a client's library has compressed, and what sealing its content would save.
// Nothing of it is in the figures of the group, or in what is written: that takes a person who knows the writer.
type Foreign struct {
	Format       string         `json:"format"`         // of most, as in "glide-zstd"
	Rule         string         `json:"rule_format"`    // what a rule's format has to be: a library's name, or that of the format
	Samples      int            `json:"samples"`        // that were tried
	Opened       int            `json:"opened"`         // of the rule's format
	Formats      map[string]int `json:"formats"`        // all that opened, those of other formats too
	Plain        int            `json:"plain"`          // look like no format
	Unopened     int            `json:"unopened"`       // look like one and do not open
	StoredBytes  int64          `json:"stored_bytes"`   // that those of the rule's format take, in the whole group
	ContentBytes int64          `json:"content_bytes"`  // that their content would take plain
	RatioNow     float64        `json:"ratio_now"`      // of the whole group: what it would take plain by what it takes
	RatioAfter   float64        `json:"ratio_resealed"` // likewise when it is re-sealed; 0: not measured, or not worth it
	Exact        int            `json:"exact"`          // of those compared, come back byte for byte
	Compared     int            `json:"compared"`
	Saved        int64          `json:"bytes_saved"`   // by re-sealing, of what the group takes now; 0 likewise
	Resealed     *GroupPlan     `json:"resealed"`      // candidates measured on the content; nil: too few values open
	Why          string         `json:"why,omitempty"` // re-sealing is not suggested

	short int // of Plain, those that GLIDE leaves alone
}

// libraries finds out whether a group of so many bytes holds values that a library has compressed. few says that hardly any
// are, or so few that nothing more is to be measured.
func (t *openedSample) libraries(cost Cost, kind string, now int64) (x *Foreign, few bool) {
	if x = t.foreign(); x == nil {
		return nil, true
	}
	held, content := t.costs(cost, kind)
	x.StoredBytes = int64(float64(now) * held.opened / held.all)
	x.ContentBytes = int64(float64(now) * content.opened / held.all)
	x.RatioNow = content.all / held.all
	if few = 2*x.Opened <= x.Samples-x.short; few {
		x.Why = "most values are not compressed so"
	}
	return x, few
}

// explain says of a group that is left alone that it is so since a library has been there.
func (x *Foreign) explain(g *GroupPlan, few bool) {
	switch {
	case g.Choice >= 0:
	case few:
		g.leave("some of its values are compressed already, " + x.writer() + ": " + g.Why)
	default:
		g.leave("its values are compressed already, " + x.writer() + ": " + g.Why)
	}
}

// judge suggests re-sealing where it leaves fewer bytes than what is recommended without.
func (x *Foreign) judge(g *GroupPlan) {
	switch o := x.Resealed.Chosen(); {
	case o == nil:
		x.Why = x.Resealed.Why
	case o.After >= g.After():
		x.Why = "it would save no more than compressing the values as they are"
	default:
		x.Saved, x.RatioAfter = g.Now-o.After, x.RatioNow*float64(g.Now)/float64(max(o.After, 1))
	}
}

// suggested is the candidate that a group's content should be sealed with; nil: none.
func (x *Foreign) suggested() *Option {
	if x == nil || x.Why != "" || x.Resealed == nil {
		return nil
	}
	return x.Resealed.Chosen()
}

// foreign counts, and takes values of all formats but one rule's for what they are; nil where hardly any opens.
func (t *openedSample) foreign() *Foreign {
	x := &Foreign{Samples: len(t.values), Unopened: t.unopened, short: t.short, Formats: make(map[string]int)}
	byRule := make(map[string]int)
	for f, n := range t.formats {
		x.Formats[f.String()] = n
		byRule[ruleFormat(f)] += n
		x.Plain -= n
	}
	x.Plain += x.Samples - x.Unopened
	x.Rule = mostOf(byRule)
	if x.Opened = byRule[x.Rule]; x.Opened == 0 || x.Opened*fewOpen < x.Samples-x.short {
		return nil
	}
	own := make(map[string]int)
	for f, n := range t.formats {
		if ruleFormat(f) == x.Rule {
			own[f.String()] = n
		}
	}
	x.Format = mostOf(own)
	for i, v := range t.values {
		if v.format != 0 && ruleFormat(v.format) != x.Rule {
			t.values[i] = subject{held: v.held, content: v.held}
		}
	}
	return x
}

// mostOf is the most frequent name, of several the first.
func mostOf(counts map[string]int) (name string) {
	for _, s := range slices.Sorted(maps.Keys(counts)) {
		if name == "" || counts[s] > counts[name] {
			name = s
		}
	}
	return name
}

// ruleFormat is what a rule calls a format. GLIDE's clients read either of its own.
func ruleFormat(f foreign.Format) string {
	switch f {
	case foreign.GlideZstd, foreign.GlideLZ4:
		return "glide"
	}
	return f.String()
}

// sums are of bytes where values are held: of all, and of those that opened.
type sums struct{ all, opened float64 }

// costs are what the sample takes, and what it would take plain.
func (t *openedSample) costs(cost Cost, kind string) (held, content sums) {
	for _, v := range t.values {
		before, _ := cost(kind, len(v.held), len(v.held))
		after, _ := cost(kind, len(v.content), len(v.content))
		held.all, content.all = held.all+float64(before), content.all+float64(after)
		if v.format != 0 {
			held.opened, content.opened = held.opened+float64(before), content.opened+float64(after)
		}
	}
	return held, content
}

// writers say who compresses like that, behind "compressed".
var writers = map[foreign.Format]string{
	foreign.GlideZstd:    "by Valkey GLIDE (zstd)",
	foreign.GlideLZ4:     "by Valkey GLIDE (lz4)",
	foreign.Zlib:         "with zlib, as django-redis does",
	foreign.Gzip:         "with gzip, as django-redis does",
	foreign.Zstd:         "with zstd, as django-redis and phpredis do",
	foreign.LZ4:          "with LZ4, as django-redis does",
	foreign.PHPRedisLZ4:  "by phpredis (lz4)",
	foreign.RedissonZstd: "by Redisson (zstd)",
	foreign.Rails70:      "by Rails",
	foreign.Rails71:      "by Rails",
	foreign.XZ:           "with xz, as django-redis does",
}

func (x *Foreign) writer() string {
	f, _ := foreign.Parse(x.Format)
	if s, ok := writers[f]; ok {
		return s
	}
	return "as " + x.Format
}

// libraryWords say what a group holds and what could be done, behind its name.
func (g *GroupPlan) libraryWords() string {
	x := g.Foreign
	o := x.suggested()
	switch {
	case x.Resealed == nil:
		return fmt.Sprintf("holds some values that are compressed %s, too few to plan for (--match plans a part of the keys). %s.", x.writer(), x.counts())
	case o == nil:
		return fmt.Sprintf("holds values compressed %s: %.1fx today. Re-sealing is not worth it: %s. %s.", x.writer(), x.RatioNow, x.Why, x.counts())
	}
	without := ""
	if g.Choice >= 0 {
		without = fmt.Sprintf(", where its rule without a format saves %s", ui.Size(g.Now-g.After()))
	}
	return fmt.Sprintf("holds values compressed %s: %.1fx today, %.1fx when re-sealed with %s: %s less%s. To do so: format: %s in its rule, then %s. %s. %s.",
		x.writer(), x.RatioNow, x.RatioAfter, o.Name, ui.Size(x.Saved), without, x.Rule, x.packing(), x.counts(), x.sameBytes())
}

// packing is what to run.
func (x *Foreign) packing() string {
	if x.Exact < x.Compared {
		return "cinch pack --allow-recode"
	}
	return "cinch pack"
}

// counts say how many of the sample are what.
func (x *Foreign) counts() string {
	s := []string{fmt.Sprintf("Of %s, %d open", plural(x.Samples, "value sampled", "values sampled"), x.Opened)}
	if x.Opened == x.Samples {
		s[0] = fmt.Sprintf("All of %s open", plural(x.Samples, "value sampled", "values sampled"))
	}
	if x.Plain > 0 {
		s = append(s, fmt.Sprintf("%d are plain", x.Plain))
		if x.Rule == ruleFormat(foreign.GlideZstd) && x.short == x.Plain {
			s[1] += " (GLIDE leaves those below 64 bytes)"
		}
	}
	if others := x.Samples - x.Opened - x.Plain - x.Unopened; others > 0 {
		s = append(s, fmt.Sprintf("%d are of other formats", others))
	}
	if x.Unopened > 0 {
		s = append(s, fmt.Sprintf("%d only look like a library's", x.Unopened))
	}
	return strings.Join(s, ", ")
}

// sameBytes says how many come back as they are.
func (x *Foreign) sameBytes() string {
	of := fmt.Sprintf("%d of %d", x.Exact, x.Compared)
	switch x.Exact {
	case x.Compared:
		of = fmt.Sprintf("All of %d", x.Compared)
	case 0:
		of = fmt.Sprintf("None of %d", x.Compared)
	}
	return of + " tried come back byte for byte"
}

// mayBeTheirs is what to think of before a rule gets a format.
const mayBeTheirs = "Bytes that look like a library's may be the application's own, so nothing of this is in the figures or the rules: give a rule its format only where you know who writes the values. " +
	"Clients get them in the library's format again, with --allow-recode not in the same bytes."

// resealing is what re-sealing would save beside what is recommended, and in how many groups.
func (r *Report) resealing() (bytes int64, groups int) {
	for _, g := range r.Groups {
		if o := g.Foreign.suggested(); o != nil {
			bytes, groups = bytes+g.After()-o.After, groups+1
		}
	}
	return bytes, groups
}
