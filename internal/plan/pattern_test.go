package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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
		if got := patternsOf(col); !slices.Equal(got, c.want) {
			t.Errorf("%.40q: %q, want %q", c.names, got, c.want)
		}
	}
}

// Whatever the names, there are at most so many patterns, each name is counted once, and
// the globs cover the names.
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
