package tarantool

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
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

// A field whose type Lua can't see is replaced only if the type is unchanged too.
func TestReplaceSeesTypes(t *testing.T) {
	s, c, _ := filled(t, `box.space.tree:replace{1, 'doc', 'same bytes'}`)
	space := spaceOf(t, s, "tree")
	v := walk(t, space, 10)["[1]/extra"]
	lua(t, c, `assert(box.execute(([[UPDATE "tree" SET "extra" = X'%s']]):format(('same bytes'):hex())))`)
	outcomes, err := space.Replace(t.Context(), []store.Change{{Value: v, New: []byte("other")}})
	if err != nil || outcomes[0].Replaced {
		t.Fatalf("a binary was taken for the string of the same bytes: %+v, %v", outcomes, err)
	}
	again, err := space.Reread(t.Context(), []*store.Value{v})
	if err != nil || len(again) != 1 || !again[0].Ref.(*ref).binary {
		t.Fatalf("%+v, %v", again, err)
	}
	outcomes, err = space.Replace(t.Context(), []store.Change{{Value: again[0], New: []byte("other\xff")}})
	if err != nil || !outcomes[0].Replaced {
		t.Fatalf("%+v, %v", outcomes, err)
	}
	if v := walk(t, space, 10)["[1]/extra"]; !v.Ref.(*ref).binary || string(v.Stored) != "other\xff" {
		t.Errorf("now %+v", v)
	}
}

// A refused change does not affect the other changes of a call.
func TestReplaceTooLarge(t *testing.T) {
	for _, name := range []string{"tree", "vinyl"} {
		s, _, _ := filled(t, fmt.Sprintf(`for i = 1, 3 do box.space.%s:replace{i, 'doc'} end`, name))
		space := spaceOf(t, s, name)
		all := walk(t, space, 10)
		changes := []store.Change{
			{Value: all["[1]/doc"], New: []byte("one")},
			{Value: all["[2]/doc"], New: bytes.Repeat([]byte("x"), 2<<20)},
			{Value: all["[3]/doc"], New: []byte("three")},
		}
		outcomes, err := space.Replace(t.Context(), changes)
		if err != nil {
			t.Fatal(err)
		}
		if !outcomes[0].Replaced || !outcomes[2].Replaced || outcomes[1].Err == nil || !strings.Contains(outcomes[1].Err.Error(), "max_tuple_size") {
			t.Errorf("%s: %+v", name, outcomes)
		}
	}
}

// TestReplaceRaces: of many concurrent replacements of the same values each succeeds once.
func TestReplaceRaces(t *testing.T) {
	for _, name := range []string{"tree", "vinyl"} {
		s, _, _ := filled(t, fmt.Sprintf(`for i = 1, 200 do box.space.%s:replace{i, 'doc'} end`, name))
		space := spaceOf(t, s, name)
		var changes []store.Change
		for _, v := range walk(t, space, 1000) {
			changes = append(changes, store.Change{Value: v, New: []byte("new")})
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		won := 0
		for range 8 {
			all.Go(func() {
				outcomes, err := space.Replace(t.Context(), changes)
				mu.Lock()
				defer mu.Unlock()
				for _, o := range outcomes {
					if o.Replaced {
						won++
					} else if o.Err != nil {
						err = o.Err
					}
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		if all.Wait(); won != 200 {
			t.Errorf("%s: 200 values were replaced %d times", name, won)
		}
	}
}
