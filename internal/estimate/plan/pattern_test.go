package plan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

func patternsOf(c *Collector) []string {
	var all []string
	for _, f := range c.found() {
		all = append(all, f.pattern)
	}
	slices.Sort(all)
	return all
}

func offer(c *Collector, names ...string) {
	for _, n := range names {
		if t := c.Offer("", []byte(n)); t.Read {
			c.Value("", []byte(n), "string", t, []byte("x"))
		}
	}
}

func TestPatterns(t *testing.T) {
	people := make([]string, 0, 40)
	for i := range 40 {
		people = append(people, "user:"+string(rune('a'+i%26))+string(rune('a'+i/26))+":cart")
	}
	for _, c := range []struct {
		names []string
		want  []string
	}{
		{[]string{"user:1:cart", "user:2:cart", "user:2:seen"}, []string{"user:*:cart", "user:*:seen"}},
		{[]string{"menu:123e4567-e89b-12d3-a456-426614174000"}, []string{"menu:*"}},
		{[]string{"config", "config:main"}, []string{"config", "config:main"}},
		{[]string{"a[b:1", `c\d?:2`}, []string{`a\[b:*`, `c\\d\?:*`}},
		{people, []string{"user:*:cart"}},
		{[]string{"", "x"}, []string{"", "x"}},
		{[]string{"logs/2026-11-22.gz", "logs/2026-11-23.gz"}, []string{"logs/*.gz"}},
		{[]string{strings.Repeat("a:", 50)}, []string{"a:a:a:a:a:a:*"}},
		{[]string{"\xff\x00:" + strings.Repeat("z", 500)}, []string{"*:*"}},
	} {
		col := NewCollector(CollectOptions{})
		offer(col, c.names...)
		col.MergeSimilar(codec.New(codec.Options{}))
		if got := patternsOf(col); !slices.Equal(got, c.want) {
			t.Errorf("%.40q: %q, want %q", c.names, got, c.want)
		}
	}
}

// For any names, the number of patterns is limited, each name is counted once, and the globs cover the names.
func TestPatternsAreBounded(t *testing.T) {
	col := NewCollector(CollectOptions{})
	letters := func(i int) string {
		return string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26))
	}
	var names []string
	for i := range 20000 {
		names = append(names, fmt.Sprintf("%s:%s.%s/%s", letters(i%15), letters(i/15%14), letters(i/7%13), letters(i)))
	}
	offer(col, names...)
	var seen int64
	var globs []policy.Pattern
	for _, tr := range col.trees {
		n := 0
		tr.patterns(func(glob string, l *leaf) {
			n++
			seen += l.seen
			globs = append(globs, policy.Compile(glob))
		})
		if n > maxLeaves || n != tr.leaves {
			t.Errorf("%d patterns, counted %d, at most %d", n, tr.leaves, maxLeaves)
		}
	}
	if seen != 20000 {
		t.Errorf("%d names counted, 20000 offered", seen)
	}
	for _, name := range names {
		if !slices.ContainsFunc(globs, func(p policy.Pattern) bool { return p.Match([]byte(name)) }) {
			t.Fatalf("no pattern covers %s", name)
		}
	}
}

func FuzzPatterns(f *testing.F) {
	f.Add("user:1:cart\nuser:ab:cart\nlogs/2026-1.gz")
	f.Fuzz(func(t *testing.T, text string) {
		col := NewCollector(CollectOptions{})
		names := strings.Split(text, "\n")
		offer(col, names...)
		for _, name := range names {
			covered := false
			for _, tr := range col.trees {
				tr.patterns(func(glob string, _ *leaf) {
					p := policy.Compile(glob)
					covered = covered || p.Match([]byte(name))
				})
			}
			if !covered {
				t.Errorf("no pattern covers %q: %q", name, patternsOf(col))
			}
		}
	})
}

// Prefixes whose values are of different kinds never share a pattern, however many there are and in any order
// of names; tenants with similar values share one, and one with other values stays apart.
func TestLargeGroupsStayApart(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	letters := func(i int) string { return string([]byte{'a' + byte(i%26), 'a' + byte(i/26%26), 'z'}) }
	kinds := []func() []byte{
		func() []byte { return []byte(order(r)) },
		func() []byte { return noise(r, 300) },
		func() []byte {
			return fmt.Appendf(nil, "<li class=\"row\"><a href=\"/item/%d\">%d</a></li>", r.IntN(1e6), r.IntN(99))
		},
		func() []byte { return bytes.Repeat(noise(r, 4), 100) },
	}
	for _, c := range []struct {
		what     string
		name     func(i int) string
		value    func(i int) []byte
		names    int
		patterns []string        // all patterns
		kind     func(i int) int // if no patterns are given: kinds that must not share one
	}{
		{"60 kinds", func(i int) string { return fmt.Sprintf("%s:%d", letters(i%60), i) }, func(i int) []byte {
			return kinds[i%4]()
		}, 6000, nil, func(i int) int { return i % 4 }},
		{"40 numbered kinds, one after the other", func(i int) string { return fmt.Sprintf("kind%d:%d", i/100, i) }, func(i int) []byte {
			return kinds[i/100%4]()
		}, 4000, nil, func(i int) int { return i / 100 % 4 }},
		{"200 tenants alike", func(i int) string { return fmt.Sprintf("%s:cart:%d", letters(i%200), i) }, func(int) []byte { return kinds[0]() }, 6000, []string{"*:cart:*"}, nil},
		{"30 numbered tenants alike", func(i int) string { return fmt.Sprintf("tenant%d:cart:%d", i%30, i) }, func(int) []byte { return kinds[0]() }, 3000, []string{"*:cart:*"}, nil},
		{"names of people", func(i int) string { return "user:" + letters(i) + letters(i/676+i) + letters(i/7) }, func(int) []byte { return kinds[0]() }, 5000, []string{"user:*"}, nil},
		{"tenants and one that holds something else", func(i int) string {
			if i%10 == 0 {
				return fmt.Sprintf("blob:%d", i)
			}
			return fmt.Sprintf("%s:%d", letters(i%50), i)
		}, func(i int) []byte { return kinds[map[bool]int{true: 1, false: 0}[i%10 == 0]]() }, 5000, []string{"*:*", "blob:*"}, nil},
	} {
		col := NewCollector(CollectOptions{})
		for i := range c.names {
			name := []byte(c.name(i))
			if ticket := col.Offer("", name); ticket.Read {
				col.Value("", name, "string", ticket, c.value(i))
			}
		}
		col.MergeSimilar(codec.New(codec.Options{}))
		got := patternsOf(col)
		if c.kind == nil && !slices.Equal(got, c.patterns) {
			t.Errorf("%s: %d patterns, %.300q", c.what, len(got), got)
		}
		if c.kind != nil {
			onlyOneKind(t, c.what, got, c.names, c.name, c.kind)
		}
	}
}

// onlyOneKind checks that each pattern is the first match only for names of one kind.
func onlyOneKind(t *testing.T, what string, patterns []string, names int, name func(int) string, kind func(int) int) {
	t.Helper()
	slices.SortStableFunc(patterns, func(a, b string) int { return literal(b) - literal(a) })
	holds := map[string]int{}
	for i := range names {
		at := slices.IndexFunc(patterns, func(p string) bool { c := policy.Compile(p); return c.Match([]byte(name(i))) })
		if at < 0 {
			t.Fatalf("%s: nothing covers %s", what, name(i))
		}
		if k, ok := holds[patterns[at]]; ok && k != kind(i) {
			t.Fatalf("%s: %s holds kinds %d and %d: %q", what, patterns[at], k, kind(i), patterns)
		}
		holds[patterns[at]] = kind(i)
	}
}
