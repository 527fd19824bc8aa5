package tarantool

import (
	"errors"
	"testing"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// TestReplaceMeetsItsSchema: a field that has come under an index since the walk began is no longer replaced.
// Other changes of the schema do no harm.
func TestReplaceMeetsItsSchema(t *testing.T) {
	_, c, server := filled(t, `for i = 1, 3 do box.space.tree:replace{i, 'value ' .. i} end`)
	s, err := Open(t.Context(), c, OpenOptions{Name: server.Addr, Wanted: func(s *schema.Space, f schema.Field) bool { return s.Name == "tree" && f.Name == "doc" }})
	if err != nil {
		t.Fatal(err)
	}
	space := spaceOf(t, s, "tree")
	all := walk(t, space, 10)
	replace := func(key string) ([]store.Outcome, error) {
		return space.Replace(t.Context(), []store.Change{{Value: all[key], New: []byte("new")}})
	}
	lua(t, c, `box.schema.space.create('other')`)
	if out, err := replace("[1]/doc"); err != nil || !out[0].Replaced {
		t.Errorf("after another space was made: %+v, %v", out, err)
	}
	lua(t, c, `box.space.tree:create_index('docs', {parts = {{2, 'string'}}, unique = false})`)
	for range 2 {
		if out, err := replace("[2]/doc"); !errors.Is(err, ErrSchemaChanged) {
			t.Errorf("a field with an index: %+v, %v", out, err)
		}
	}
	if got := luaString(t, c, `return box.space.tree:get(1)[2] .. ', ' .. box.space.tree:get(2)[2]`); got != "new, value 2" {
		t.Errorf("it has %q", got)
	}
}
