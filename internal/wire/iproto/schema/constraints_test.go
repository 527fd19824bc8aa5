package schema

import "testing"

func TestMentions(t *testing.T) {
	for _, c := range []struct {
		code, name string
		want       bool
	}{
		{`"doc" <> ''`, "doc", true},
		{"length(DOC) > 0", "doc", true},
		{"length(doc1) > 0", "doc", false},
		{`my_doc > doc`, "doc", true},
		{`my_doc > 1`, "doc", false},
		{`"a""b" > 1`, `a"b`, true},
		{"a > 1", "", false},
	} {
		if got := Mentions(c.code, c.name); got != c.want {
			t.Errorf("%s names %s: %v", c.code, c.name, got)
		}
	}
}
