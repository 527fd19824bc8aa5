package policy

import (
	"math/rand/v2"
	"testing"
)

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"*", "menu:*", true},
		{"", "menu:*", true},
		{"menu:*", "*", false},
		{"menu:*", "menu:1", true},
		{"menu:*", "menu:[0-9]*", true},
		{"menu:[0-9]*", "menu:*", false},
		{"menu:?*", "menu:*", false},
		{"*:*", "a:b:c", true},
		{"a*", "b*", false},
		{"[a-c]x", "bx", true},
		{`\*`, "*", false},
		{"**", "x", true},
	} {
		if got := Covers(c.a, c.b); got != c.want {
			t.Errorf("Covers(%q, %q) is %v", c.a, c.b, got)
		}
	}
}

// Covers agrees with an exhaustive test of all short words.
func TestCoversAgreesWithMatch(t *testing.T) {
	var words [][]byte
	for n := 0; n <= 6; n++ {
		for w := range 1 << n {
			word := make([]byte, n)
			for i := range word {
				word[i] = "ab"[w>>i&1]
			}
			words = append(words, word)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	pattern := func() (p string) {
		for range 1 + r.IntN(4) {
			p += []string{"a", "b", "*", "[ab]", "[^a]"}[r.IntN(5)]
		}
		return p
	}
	yes := 0
	for range 3000 {
		a, b := pattern(), pattern()
		pa, pb := Compile(a), Compile(b)
		missed := false
		for _, w := range append(words, []byte("c"), []byte("ac"), []byte("ca"), []byte("bcb"), []byte("cc")) {
			missed = missed || pb.Match(w) && !pa.Match(w)
		}
		got := Covers(a, b)
		if got && missed {
			t.Fatalf("Covers(%q, %q), but it doesn't", a, b)
		}
		if !got && !missed && !hasOther(pa, pb) {
			t.Fatalf("Covers(%q, %q) is false, and no word shows it", a, b)
		}
		if got {
			yes++
		}
	}
	if yes < 100 {
		t.Errorf("only %d pairs cover each other", yes)
	}
}

// hasOther reports whether a longer word, with other letters, distinguishes two patterns.
func hasOther(a, b Pattern) bool {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		word := make([]byte, r.IntN(10))
		for i := range word {
			word[i] = "abcd"[r.IntN(4)]
		}
		if b.Match(word) && !a.Match(word) {
			return true
		}
	}
	return false
}
