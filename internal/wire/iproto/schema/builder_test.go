package schema

import (
	"strings"
	"testing"
)

// Spaces may be added in any order. Every space lists the system spaces that the user may not read.
func TestBuilder(t *testing.T) {
	lost := false
	b := NewBuilder(Version{2, 6}, func() bool { return lost })
	format := []any{map[any]any{"name": "id", "type": "num"}, map[any]any{"name": "doc", "type": "str", "compression": "zstd"}}
	for _, space := range []Tuple{
		{uint64(602), uint64(1), "later", "memtx", uint64(0), map[any]any{}, []any{}},
		{uint64(600), uint64(1), "docs", "memtx", uint64(2), map[any]any{}, format},
	} {
		if err := b.AddSpace(space); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.AddIndex(Tuple{uint64(600), uint64(0), "pk", "tree", map[any]any{"unique": true}, []any{[]any{uint64(0), "num"}}}); err != nil {
		t.Fatal(err)
	}
	if b.AddSpace(Tuple{"600"}) == nil || b.AddIndex(Tuple{uint64(600)}) == nil {
		t.Error("broken tuples were added")
	}
	b.Hide("_ck_constraint")
	s := b.Schema()
	docs := s.Space(600)
	if docs == nil || docs != s.SpaceByName("docs") || s.Space(602) == nil || s.Space(601) != nil {
		t.Fatal("spaces are not found")
	}
	if f := docs.FieldAt(1); f.Type != "string" || f.Compression != "zstd" || docs.Primary().Parts[0] != (Part{Type: "unsigned"}) {
		t.Errorf("%+v, %+v", f, docs.Primary())
	}
	if docs.Constraint(0) != `index "pk" has the field` || !strings.Contains(docs.Constraint(1), "may not read _ck_constraint") || docs.KnownConstraint(1) != "" {
		t.Errorf("touched: %q, %q", docs.Constraint(0), docs.Constraint(1))
	}
	if lost = true; !s.Lost() || (&Schema{}).Lost() {
		t.Error("the end of the connection is not reported")
	}
}
