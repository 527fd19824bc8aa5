package policy

import "testing"

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"", "a", true},
		{"*", "", true},
		{"a", "a", true},
		{"a", "b", false},
		{"web:*", "web:own:*", true},
		{"web:*", "app:*", false},
		{"a*x", "*ab*", true},
		{"a*x", "a*y", false},
		{"a?c", "abd", false},
		{"a[b-d]c", "a[d-f]c", true},
		{"a[bc]c", "a[^bc]c", false},
		{`a\*`, "ab", false},
		{`a\*`, "a?", true},
		{"*a*a*a*a*a*b", "*a*a*a*a*a*c", false},
		{"a", "", true},
		{"a", "ab", false},
	} {
		if got := Overlap(c.a, c.b); got != c.want || Overlap(c.b, c.a) != c.want {
			t.Errorf("%q, %q: %v", c.a, c.b, got)
		}
	}
}
