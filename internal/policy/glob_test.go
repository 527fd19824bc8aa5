package policy

import (
	"bytes"
	"strings"
	"testing"
)

// redisMatch is stringmatchlen of Redis 7.0 in Go, including its quirks and backtracking: the oracle for
// Pattern. Reading past the end gives the NUL that ends every sds.
func redisMatch(pattern, s string) bool {
	at := func(p string, i int) byte {
		if i < len(p) {
			return p[i]
		}
		return 0
	}
	for len(pattern) > 0 && len(s) > 0 {
		switch pattern[0] {
		case '*':
			for at(pattern, 1) == '*' {
				pattern = pattern[1:]
			}
			if len(pattern) == 1 {
				return true
			}
			for ; s != ""; s = s[1:] {
				if redisMatch(pattern[1:], s) {
					return true
				}
			}
			return false
		case '[':
			var ok bool
			if pattern, ok = redisClass(pattern[1:], s[0]); !ok {
				return false
			}
		case '\\':
			if len(pattern) >= 2 {
				pattern = pattern[1:]
			}
			fallthrough
		default:
			if pattern[0] != s[0] {
				return false
			}
		case '?':
		}
		s = s[1:]
		if pattern != "" {
			pattern = pattern[1:]
		}
		if s == "" {
			pattern = strings.TrimLeft(pattern, "*")
			break
		}
	}
	return pattern == "" && s == ""
}

// redisClass returns the pattern at its closing bracket, or "" without one.
func redisClass(p string, c byte) (string, bool) {
	not := p != "" && p[0] == '^'
	if not {
		p = p[1:]
	}
	match := false
	for {
		switch {
		case len(p) >= 2 && p[0] == '\\':
			p = p[1:]
			match = match || p[0] == c
		case p != "" && p[0] == ']', p == "":
			return p, match != not
		case len(p) >= 3 && p[1] == '-':
			match = match || min(p[0], p[2]) <= c && c <= max(p[0], p[2])
			p = p[2:]
		default:
			match = match || p[0] == c
		}
		p = p[1:]
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		glob, key string
		want      bool
	}{
		{"menu:*", "menu:1", true},
		{"menu:*", "menu:", true},
		{"menu:*", "menu", false},
		{"menu:?", "menu:12", false},
		{"*", "", true},
		{"", "", true},
		{"", "a", false},
		{"a", "", false},
		{"h[a-c]llo", "hbllo", true},
		{"h[c-a]llo", "hbllo", true},
		{"h[^a]llo", "hallo", false},
		{"h[^a]llo", "hello", true},
		{`h\*llo`, "h*llo", true},
		{`h\*llo`, "hello", false},
		{`[\]]`, "]", true},
		{`a\`, `a\`, true},
		{"[", "[", false},
		{"[^", "x", true},
		{"[a-", "-", true},
		{"[]a", "a", false},
		{"*a*b*", "xxaxxbxx", true},
		{"*a*b*", "xxbxxaxx", false},
		{"a*a", "a", false},
		{"ab*ba", "aba", false},
		{"**a**", "a", true},
		{"?", "é", false}, // bytes, not runes
		{"??", "é", true},
		{"*\xff*", "a\xffb", true},
		{"*[0-9]?x*", "aa1zx", true},
	} {
		p := Compile(c.glob)
		if got := p.Match([]byte(c.key)); got != c.want {
			t.Errorf("Compile(%q).Match(%q) = %v", c.glob, c.key, got)
		}
	}
}

// TestPatternHostile would practically not terminate with backtracking over every star.
func TestPatternHostile(t *testing.T) {
	key := bytes.Repeat([]byte("a"), 1<<20)
	for _, glob := range []string{
		strings.Repeat("a*", 60) + "b",
		strings.Repeat("*?", 60) + "b",
		strings.Repeat("*[a-z]", 60) + "*b*c",
		strings.Repeat("*aaaaaaa?", 60) + "b",
	} {
		p := Compile(glob)
		if p.Match(key) {
			t.Errorf("%.20q… matches a key without b", glob)
		}
	}
}

func TestUnclosedClass(t *testing.T) {
	for glob, want := range map[string]int{
		"": -1, "a*": -1, "[a-c]x": -1, `a\[b`: -1, "a[b": 1, "[^": 0, "[a-]": 0, `[x]?[\]`: 4, "*[": 1,
	} {
		if got := UnclosedClass(glob); got != want {
			t.Errorf("UnclosedClass(%q) = %d, want %d", glob, got, want)
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, glob := range []string{"*", "a*b?c", "[^a-z]*", `\*[\]x]`, "[a-", "[^", "**[*]"} {
		f.Add(glob, "abxc")
	}
	f.Fuzz(func(t *testing.T, glob, key string) {
		if len(key) > 24 || strings.Count(glob, "*") > 6 || key == "" {
			t.Skip() // the oracle backtracks; the empty key is the only difference
		}
		p := Compile(glob)
		if got, want := p.Match([]byte(key)), redisMatch(glob, key); got != want {
			t.Errorf("Compile(%q).Match(%q) = %v, Redis says %v", glob, key, got, want)
		}
	})
}
