package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// Compressing values that a client's library has compressed already gains nothing. If most of a group's sample
// decompresses in a library's format, the candidates are measured a second time, on the content:
//
//	library's value -> content -> envelope        a rule with its format, and a packer that may recode
//	library's value -> unchanged                  the plan's recommendation: the bytes may be the application's own
//
// Bytes are those of the stored values, before and after: the content itself is stored nowhere.
//
// Values too short for any library to compress do not count, since a hash has many such fields. If fewer than one
// in fewOpen of the others decompress, the group counts as not compressed by a library.
const fewOpen = 20

// Foreign describes values of a group that a client's library has compressed, and what compressing their
// content would save. It is not part of the group's figures, nor of the configuration that is written: for
// that the user has to know which application writes the values.
type Foreign struct {
	Format       string         `json:"format"`         // the most frequent one, as in "glide-zstd"
	Rule         string         `json:"rule_format"`    // the value for a rule's format: a library's name, or that of the format
	Samples      int            `json:"samples"`        // values tried
	Opened       int            `json:"opened"`         // decompressed in the rule's format
	Formats      map[string]int `json:"formats"`        // all that decompressed, in any format
	Plain        int            `json:"plain"`          // recognised as no format
	Unopened     int            `json:"unopened"`       // recognised but failed to decompress
	StoredBytes  int64          `json:"stored_bytes"`   // stored size of those in the rule's format, in the whole group
	ContentBytes int64          `json:"content_bytes"`  // size of their content
	RatioNow     float64        `json:"ratio_now"`      // of the whole group: uncompressed size by stored size
	RatioAfter   float64        `json:"ratio_resealed"` // the same after re-sealing; 0: not measured, or not worth it
	Exact        int            `json:"exact"`          // of those compared, those restored byte for byte
	Compared     int            `json:"compared"`
	Saved        int64          `json:"bytes_saved"`   // by re-sealing, of the group's bytes now; 0: as above
	Resealed     *GroupPlan     `json:"resealed"`      // candidates measured on the content; nil: too few values decompress
	Why          string         `json:"why,omitempty"` // why re-sealing is not suggested

	short int // of Plain, those below GLIDE's minimum
}

// libraries determines whether a group of now bytes holds values that a library has compressed. few is true if these
// are too few to measure their content.
func (t *openedSample) libraries(cost Cost, kind string, now int64) (x *Foreign, few bool) {
	if x = t.foreign(); x == nil {
		return nil, true
	}
	held, content := t.costs(cost, kind)
	x.StoredBytes = int64(float64(now) * held.opened / held.all)
	x.ContentBytes = int64(float64(now) * content.opened / held.all)
	x.RatioNow = content.all / held.all
	if few = 2*x.Opened <= x.Samples-x.short; few {
		x.Why = "most values are not in this format"
	}
	return x, few
}

// explain gives a group that is left alone another reason: a library has compressed its values already.
func (x *Foreign) explain(g *GroupPlan, few bool) {
	switch {
	case g.Choice >= 0:
	case few:
		g.leave("some of its values are compressed already, " + x.writer() + ": " + g.Why)
	default:
		g.leave("its values are compressed already, " + x.writer() + ": " + g.Why)
	}
}

// suggestResealing suggests re-sealing if it leaves fewer bytes than the recommendation without it.
func (x *Foreign) suggestResealing(g *GroupPlan) {
	switch o := x.Resealed.Chosen(); {
	case o == nil:
		x.Why = x.Resealed.Why
	case o.After >= g.After():
		x.Why = "it would save no more than compressing the stored values directly"
	default:
		x.Saved, x.RatioAfter = g.Now-o.After, x.RatioNow*float64(g.Now)/float64(max(o.After, 1))
	}
}

// suggested returns the candidate for a group's content, or nil if there is none.
func (x *Foreign) suggested() *Option {
	if x == nil || x.Why != "" || x.Resealed == nil {
		return nil
	}
	return x.Resealed.Chosen()
}

// foreign counts the formats. It treats values of all formats except one rule's as not compressed. It returns
// nil if hardly any decompress.
func (t *openedSample) foreign() *Foreign {
	x := &Foreign{Samples: len(t.values), Unopened: t.unopened, short: t.short, Formats: make(map[string]int)}
	byRule := make(map[string]int)
	for f, n := range t.formats {
		x.Formats[f.String()] = n
		byRule[ruleFormat(f)] += n
		x.Plain -= n
	}
	x.Plain += x.Samples - x.Unopened
	x.Rule = mostFrequent(byRule)
	if x.Opened = byRule[x.Rule]; x.Opened == 0 || x.Opened*fewOpen < x.Samples-x.short {
		return nil
	}
	own := make(map[string]int)
	for f, n := range t.formats {
		if ruleFormat(f) == x.Rule {
			own[f.String()] = n
		}
	}
	x.Format = mostFrequent(own)
	for i, v := range t.values {
		if v.format != 0 && ruleFormat(v.format) != x.Rule {
			t.values[i] = subject{held: v.held, content: v.held}
		}
	}
	return x
}

// mostFrequent returns the most frequent name, the first of several.
func mostFrequent(counts map[string]int) (name string) {
	for _, s := range slices.Sorted(maps.Keys(counts)) {
		if name == "" || counts[s] > counts[name] {
			name = s
		}
	}
	return name
}

// ruleFormat returns a rule's name for a format. GLIDE's clients read both of its formats.
func ruleFormat(f clientformat.Format) string {
	switch f {
	case clientformat.GlideZstd, clientformat.GlideLZ4:
		return "glide"
	}
	return f.String()
}

// sums are stored bytes: of all values, and of those that decompressed.
type sums struct{ all, opened float64 }

// costs returns the stored size of the sample, and its size without compression.
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

// writers names the libraries that write a format, as words that follow "compressed".
var writers = map[clientformat.Format]string{
	clientformat.GlideZstd:    "by Valkey GLIDE (zstd)",
	clientformat.GlideLZ4:     "by Valkey GLIDE (lz4)",
	clientformat.Zlib:         "with zlib, as django-redis does",
	clientformat.Gzip:         "with gzip, as django-redis does",
	clientformat.Zstd:         "with zstd, as django-redis and phpredis do",
	clientformat.LZ4:          "with LZ4, as django-redis does",
	clientformat.PHPRedisLZ4:  "by phpredis (lz4)",
	clientformat.RedissonZstd: "by Redisson (zstd)",
	clientformat.Rails70:      "by Rails",
	clientformat.Rails71:      "by Rails",
	clientformat.XZ:           "with xz, as django-redis does",
}

func (x *Foreign) writer() string {
	f, _ := clientformat.Parse(x.Format)
	if s, ok := writers[f]; ok {
		return s
	}
	return "as " + x.Format
}

// libraryWords describes a group's content and what could be done, to follow its name.
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
		without = fmt.Sprintf("; its rule without a format saves %s", terminal.Size(g.Now-g.After()))
	}
	return fmt.Sprintf("holds values compressed %s: %.1fx today, %.1fx when re-sealed with %s: %s less%s. To do so: format: %s in its rule, then %s. %s. %s.",
		x.writer(), x.RatioNow, x.RatioAfter, o.Name, terminal.Size(x.Saved), without, x.Rule, x.packing(), x.counts(), x.sameBytes())
}

// packing returns the command to run.
func (x *Foreign) packing() string {
	if x.Exact < x.Compared {
		return "cinch pack --allow-recode"
	}
	return "cinch pack"
}

// counts formats the results for the sample.
func (x *Foreign) counts() string {
	s := []string{fmt.Sprintf("Of %s, %d decompress", plural(x.Samples, "value sampled", "values sampled"), x.Opened)}
	if x.Opened == x.Samples {
		s[0] = fmt.Sprintf("All of %s decompress", plural(x.Samples, "value sampled", "values sampled"))
	}
	if x.Plain > 0 {
		s = append(s, fmt.Sprintf("%d are plain", x.Plain))
		if x.Rule == ruleFormat(clientformat.GlideZstd) && x.short == x.Plain {
			s[1] += " (GLIDE leaves those below 64 bytes)"
		}
	}
	if others := x.Samples - x.Opened - x.Plain - x.Unopened; others > 0 {
		s = append(s, fmt.Sprintf("%d are in other formats", others))
	}
	if x.Unopened > 0 {
		s = append(s, fmt.Sprintf("%d look like a library's but do not decompress", x.Unopened))
	}
	return strings.Join(s, ", ")
}

// sameBytes formats how many values are restored byte for byte.
func (x *Foreign) sameBytes() string {
	of := fmt.Sprintf("%d of %d", x.Exact, x.Compared)
	switch x.Exact {
	case x.Compared:
		of = fmt.Sprintf("All of %d", x.Compared)
	case 0:
		of = fmt.Sprintf("None of %d", x.Compared)
	}
	return of + " tried are restored byte for byte"
}

// mayBeTheirs is the advice before giving a rule a format.
const mayBeTheirs = "Bytes that look like a library's may be the application's own, so the figures and the rules leave this out: set format in a rule only if you know which client writes the values. " +
	"Clients still get values in the library's format; with --allow-recode the bytes may differ."

// resealing returns what re-sealing would save in addition to the recommendations, and in how many groups.
func (r *Report) resealing() (bytes int64, groups int) {
	for _, g := range r.Groups {
		if o := g.Foreign.suggested(); o != nil {
			bytes, groups = bytes+g.After()-o.After, groups+1
		}
	}
	return bytes, groups
}
