package store

import (
	"bytes"
	"fmt"
	"testing"
)

// A value has the one user that may write its key on any node; if none or several may, it has none.
func TestWriters(t *testing.T) {
	begins := func(prefix string) func(string, []byte) bool {
		return func(_ string, key []byte) bool { return bytes.HasPrefix(key, []byte(prefix)) }
	}
	of := func(nodes ...[]Writer) Writers {
		return FindWriters(nodes, func(node []Writer) ([]Writer, error) { return node, nil }, "own", "default")
	}
	var many []Writer
	for i := range maxWriters + 1 {
		many = append(many, Writer{Login: fmt.Sprint("u", i), MayWrite: begins("a")})
	}
	for what, c := range map[string]struct {
		writers Writers
		want    string // of keys a, b
	}{
		"nobody but Cinch":     {of(nil), "own true, own true"},
		"the default user":     {of([]Writer{{Login: "default"}}), " true,  true"},
		"one user":             {of([]Writer{{Login: "u", MayWrite: begins("a")}}), "u true,  false"}, // another has written b before
		"two with keys":        {of([]Writer{{Login: "u", MayWrite: begins("a")}, {Login: "v", MayWrite: begins("b")}}), "u true, v true"},
		"one of them all":      {of([]Writer{{Login: "u"}, {Login: "v", MayWrite: begins("b")}}), "u true,  false"},
		"both all":             {of([]Writer{{Login: "u"}, {Login: "v"}}), " false,  false"},
		"other keys on a node": {of([]Writer{{Login: "u", MayWrite: begins("a")}}, []Writer{{Login: "u", MayWrite: begins("b")}}), "u true, u true"},
		"everything on a node": {of([]Writer{{Login: "u", MayWrite: begins("a")}}, []Writer{{Login: "u"}}), "u true, u true"},
		"too many":             {of(many), " false,  false"},
	} {
		a, aKnown := c.writers.Of("0", []byte("a"))
		b, bKnown := c.writers.Of("0", []byte("b"))
		if got := fmt.Sprintf("%s %t, %s %t", a, aKnown, b, bKnown); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}
