package tarantool

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
	"github.com/cinch-layer/cinch/test/testenv"
)

const storeScript = `
local function make(name, options, parts, kind)
    options.if_not_exists = true
    local s = box.schema.space.create(name, options)
    s:create_index('pk', {parts = parts, type = kind, if_not_exists = true})
    return s
end
local format = {{'id', 'unsigned'}, {'doc', 'string'}, {name = 'extra', type = 'scalar', is_nullable = true}}
make('tree', {format = format}, {{1, 'unsigned'}}, 'tree')
make('hash', {format = format}, {{1, 'unsigned'}}, 'hash')
make('vinyl', {format = format, engine = 'vinyl'}, {{1, 'unsigned'}}, 'tree')
make('loose', {}, {{1, 'string'}, {2, 'number'}}, 'tree')
make('bin', {format = {{'id', 'varbinary'}, {'doc', 'varbinary'}, {'x', 'double'}}}, {{1, 'varbinary'}, {3, 'double'}}, 'tree')
`

// filled returns a server after running fill, and the store over it.
func filled(t *testing.T, fill string) (*Store, *Conn, *testenv.TarantoolServer) {
	t.Helper()
	server := testenv.Tarantool(t, storeScript)
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{})
	lua(t, c, fill)
	s, err := Open(t.Context(), c, OpenOptions{Name: server.Addr})
	if err != nil {
		t.Fatal(err)
	}
	return s, c, server
}

func lua(t *testing.T, c *Conn, code string) {
	t.Helper()
	if err := c.eval(t.Context(), code, nil, nil); err != nil {
		t.Fatalf("%s: %v", code, err)
	}
}

func luaString(t *testing.T, c *Conn, code string) string {
	t.Helper()
	var answer []string
	if err := c.eval(t.Context(), code, nil, &answer); err != nil || len(answer) != 1 {
		t.Fatalf("%s: %q, %v", code, answer, err)
	}
	return answer[0]
}

func spaceOf(t *testing.T, s *Store, name string) *TupleSpace {
	t.Helper()
	for _, space := range s.Spaces() {
		if space.DB() == name {
			return space
		}
	}
	t.Fatalf("no space %s", name)
	return nil
}

// walk reads all pages.
func walk(t *testing.T, space *TupleSpace, step int) map[string]*store.Value {
	t.Helper()
	if _, err := space.Keys(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, share := make(map[string]*store.Value), -1.0
	for cursor := ""; ; {
		page, err := space.Page(t.Context(), cursor, store.ScanOptions{Count: step})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Values {
			all[string(v.Key)+"/"+string(v.Field)] = v
		}
		if page.Next == "" {
			return all
		}
		if got := space.Share(page.Next); got <= share || got > 1 {
			t.Fatalf("share %v after %v", got, share)
		} else {
			share = got
		}
		cursor = page.Next
	}
}

func TestScanAndReplace(t *testing.T) {
	s, c, _ := filled(t, `for i = 1, 100 do for _, name in ipairs{'tree', 'hash', 'vinyl'} do
		box.space[name]:replace{i, 'document ' .. i, i % 2 == 0 and 'extra' or nil} end
		box.space.loose:replace{'k' .. i, i / 4, 'text', {'in a list'}, 7, 'more'}
		assert(box.execute(([[INSERT INTO "bin" VALUES (X'%s', X'%s', %d.5)]]):format(('k' .. i):hex(), ('binary ' .. i):hex(), i)))
	end`)
	for name, values := range map[string]int{"tree": 150, "hash": 150, "vinyl": 150, "loose": 300, "bin": 200} {
		t.Run(name, func(t *testing.T) {
			space := spaceOf(t, s, name)
			all := walk(t, space, 7)
			if len(all) != values {
				t.Fatalf("%d values", len(all))
			}
			replaceAll(t, space, all)
			for key, v := range walk(t, space, 1000) {
				if changed := bytes.HasSuffix(v.Stored, []byte("!\xff")); changed == isKey(name, v) {
					t.Errorf("%s: %q", key, v.Stored)
				}
				if v.Ref.(*ref).binary != all[key].Ref.(*ref).binary {
					t.Errorf("%s has another type", key)
				}
			}
		})
	}
	if got := luaString(t, c, `return box.space.tree:get(3)[2]`); got != "document 3!\xff" {
		t.Errorf("stored %q", got)
	}
}

// isKey reports whether the field is part of the primary key.
func isKey(space string, v *store.Value) bool {
	return v.Ref.(*ref).field == 0 && (space == "loose" || space == "bin")
}

// replaceAll appends to all values.
func replaceAll(t *testing.T, space *TupleSpace, all map[string]*store.Value) {
	t.Helper()
	var changes []store.Change
	for _, name := range slices.Sorted(maps.Keys(all)) { // values of a tuple next to each other
		if v := all[name]; !isKey(space.DB(), v) {
			changes = append(changes, store.Change{Value: v, New: append(append([]byte{}, v.Stored...), "!\xff"...)})
		}
	}
	outcomes, err := space.Replace(t.Context(), changes)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range outcomes {
		if !o.Replaced {
			t.Fatalf("%s %s: %+v", changes[i].Value.Key, changes[i].Value.Field, o)
		}
	}
	stale(t, space, changes)
	again, err := space.Reread(t.Context(), []*store.Value{changes[0].Value})
	if err != nil || len(again) != 1 || !bytes.Equal(again[0].Stored, changes[0].New) {
		t.Fatalf("again %+v, %v", again, err)
	}
}

func stale(t *testing.T, space *TupleSpace, changes []store.Change) {
	t.Helper()
	outcomes, err := space.Replace(t.Context(), changes[:1])
	if err != nil || outcomes[0].Replaced || outcomes[0].Err != nil {
		t.Fatalf("a value that was replaced is replaced again: %+v, %v", outcomes, err)
	}
}

// A hash index is walked to its end although the tuples to continue from are deleted.
func TestScanHashWithDeletes(t *testing.T) {
	s, c, server := filled(t, `for i = 1, 1000 do box.space.hash:replace{i, 'doc'} end`)
	space := spaceOf(t, s, "hash")
	seen := make(map[string]bool)
	restarted := false
	for cursor, n := "", 0; ; n++ {
		page, err := space.Page(t.Context(), cursor, store.ScanOptions{Count: 50})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range page.Keys {
			seen[string(k)] = true
		}
		if n < 3 {
			last := strings.Trim(string(page.Keys[len(page.Keys)-1]), "[]")
			lua(t, c, fmt.Sprintf(`box.space.hash:delete(%s)`, last))
		}
		if n == 5 {
			server.Kill()
			if err := server.Restart(t); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "the server is back", func() bool { return c.Ping(t.Context()) == nil })
			restarted = true
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		if n > 100 {
			t.Fatal("the walk has no end")
		}
	}
	if len(seen) < 997 || !restarted {
		t.Errorf("%d of 997 seen", len(seen))
	}
}

func TestReadOnlyAndRights(t *testing.T) {
	s, c, server := filled(t, `box.space.tree:replace{1, 'doc'}
		box.schema.user.create('reader', {password = 'secret'}) box.session.su('admin', box.schema.user.grant, 'reader', 'read', 'space', 'tree')`)
	reader, err := Open(t.Context(), mustConnect(t, server.Addr, "reader", "secret"), OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(reader.Spaces()) != 1 {
		t.Fatalf("the reader sees %d spaces", len(reader.Spaces()))
	}
	values := walk(t, reader.Spaces()[0], 10)
	outcomes, err := reader.Spaces()[0].Replace(t.Context(), []store.Change{{Value: values["[1]/doc"], New: []byte("x")}})
	if err != nil || outcomes[0].Skip != store.Denied {
		t.Errorf("a reader replaces: %+v, %v", outcomes, err)
	}
	lua(t, c, `box.cfg{read_only = true}`)
	if _, err := Open(t.Context(), c, OpenOptions{}); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("a read-only server: %v", err)
	}
	outcomes, err = spaceOf(t, s, "tree").Replace(t.Context(), []store.Change{{Value: values["[1]/doc"], New: []byte("x")}})
	if err != nil || !errors.Is(outcomes[0].Err, store.ErrReadOnly) {
		t.Errorf("replacing there: %+v, %v", outcomes, err)
	}
}

func TestOpenWithoutInit(t *testing.T) {
	server := testenv.Tarantool(t, storeScript)
	if _, err := Open(t.Context(), mustConnect(t, server.Addr, "", ""), OpenOptions{}); !errors.Is(err, ErrNoInit) {
		t.Errorf("%v", err)
	}
}

func TestPlaces(t *testing.T) {
	for _, bad := range []string{"x", "1 2", "1 p !", "x p kA", "1 p kA"} {
		if p, err := parsePlace(bad); err == nil {
			t.Errorf("%q is %+v", bad, p)
		}
	}
}

func FuzzTuple(f *testing.F) {
	f.Add([]byte{0x93, 1, 0xa2, 'a', 'b', 0xc4, 1, 'c'})
	f.Fuzz(func(t *testing.T, b []byte) {
		space := &TupleSpace{all: true, space: &schema.Space{}}
		values, err := space.values(nil, nil, nil, b, 0)
		size := 0
		for _, v := range values {
			size += len(v.Stored)
		}
		if size > len(b) || err == nil && len(b) == 0 {
			t.Fatal("more than there is")
		}
	})
}
