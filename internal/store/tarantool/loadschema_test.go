package tarantool

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
	"github.com/cinch-layer/cinch/test/testenv"
)

// connect returns a connection to the test's server.
func connect(t *testing.T, addr, user, password string) (*Conn, error) {
	t.Helper()
	c, err := Connect(t.Context(), Options{User: user, Password: password, Timeout: time.Minute, Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}})
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func mustConnect(t *testing.T, addr, user, password string) *Conn {
	t.Helper()
	c, err := connect(t, addr, user, password)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const schemaScript = `
local s = box.schema.space.create('docs', {if_not_exists = true, format = {
    {'id', 'unsigned'}, {name = 'doc', type = 'string', compression = 'zstd', is_nullable = true}, {'tag', 'string'},
    {'map', 'map'}, {name = 'coll', type = 'string', collation = 'unicode_ci'}, {'checked', 'str'}, {'free', '*'}}})
s:create_index('pk', {if_not_exists = true})
s:create_index('tag', {parts = {{'tag', 'string'}}, unique = false, if_not_exists = true})
s:create_index('path', {parts = {{field = 4, type = 'string', path = 'a.b', is_nullable = true}}, unique = false, if_not_exists = true})
s:create_index('late', {parts = {{field = 9, type = 'string', is_nullable = true}}, unique = false, if_not_exists = true})
if not s.ck_constraint.ck then s:create_check_constraint('ck', [["checked" <> 'doc1']]) end
local f = box.schema.space.create('computed', {if_not_exists = true, format = {{'id', 'unsigned'}, {'doc', 'string'}}})
f:create_index('pk', {if_not_exists = true})
box.schema.func.create('key', {body = 'function(t) return {t[2]:sub(1, 2)} end', is_deterministic = true, is_sandboxed = true, if_not_exists = true})
f:create_index('f', {parts = {{1, 'string'}}, func = 'key', unique = false, if_not_exists = true})
local v = box.schema.space.create('vy', {engine = 'vinyl', field_count = 3, if_not_exists = true})
v:create_index('pk', {parts = {{2, 'string'}, {1, 'unsigned'}}, if_not_exists = true})
box.execute('CREATE TABLE IF NOT EXISTS parent (id INT PRIMARY KEY, name TEXT UNIQUE, note TEXT)')
box.execute('CREATE TABLE IF NOT EXISTS child (id INT PRIMARY KEY, parent TEXT REFERENCES parent(name), note TEXT CHECK (length(note) > 0), other TEXT)')
box.execute('CREATE VIEW IF NOT EXISTS look AS SELECT id, note FROM parent')
box.schema.user.create('reader', {password = 'secret', if_not_exists = true})
box.schema.user.grant('reader', 'read', 'space', 'docs', {if_not_exists = true})
`

func TestSchema(t *testing.T) {
	server := testenv.Tarantool(t, schemaScript)
	s, err := Load(t.Context(), mustConnect(t, server.Addr, "", ""))
	if err != nil {
		t.Fatal(err)
	}
	if s.Version == 0 {
		t.Error("no version")
	}
	for _, want := range []struct{ space, field, touched string }{
		{"docs", "id", `index "pk" has the field`},
		{"docs", "doc", ""},
		{"docs", "tag", `index "tag" has the field`},
		{"docs", "map", `index "path" has a part of the field, at path "a.b"`},
		{"docs", "coll", "the field has a collation, by which the server compares it"},
		{"docs", "checked", "check constraint ck reads the field"},
		{"docs", "free", ""},
		{"computed", "doc", `index "f" is computed by a function, which may read any field`},
		{"PARENT", "NAME", `index "unique_unnamed_PARENT_2" has the field`},
		{"PARENT", "NOTE", ""},
		{"CHILD", "PARENT", "foreign key fk_unnamed_CHILD_1 uses the field"},
		{"CHILD", "NOTE", "check constraint ck_unnamed_CHILD_1 reads the field"},
		{"CHILD", "OTHER", ""},
		{"LOOK", "NOTE", "the space is a view"},
		{"_space", "name", "the space is the server's own"},
	} {
		space := s.SpaceByName(want.space)
		if space == nil {
			t.Fatalf("no space %s", want.space)
		}
		n, ok := space.FieldNumber(want.field)
		if !ok {
			t.Fatalf("%s has no field %s", want.space, want.field)
		}
		if got := space.Constraint(n); got != want.touched {
			t.Errorf("%s.%s: %q, want %q", want.space, want.field, got, want.touched)
		}
	}
	checkSpaces(t, s)
}

func checkSpaces(t *testing.T, s *schema.Schema) {
	t.Helper()
	docs, vy, look := s.SpaceByName("docs"), s.SpaceByName("vy"), s.SpaceByName("LOOK")
	if s.Space(docs.ID) != docs || s.Space(99999) != nil || s.SpaceByName("none") != nil {
		t.Error("spaces are not found by their numbers")
	}
	if got := docs.FieldAt(1); got.Compression != "zstd" || got.Type != "string" || !got.Nullable {
		t.Errorf("field 1 is %+v", got)
	}
	if docs.FieldAt(5).Type != "string" || docs.FieldAt(6).Type != "any" || docs.FieldAt(77).Type != "any" {
		t.Error("types have other names")
	}
	if docs.Constraint(8) == "" || docs.Constraint(9) != "" {
		t.Error("a field behind the format is taken wrongly")
	}
	if vy.Engine != "vinyl" || vy.FieldCount != 3 || len(vy.Primary().Parts) != 2 || vy.Primary().Parts[0].Field != 1 {
		t.Errorf("vy is %+v", vy)
	}
	if !look.View || !strings.Contains(look.SQL, "SELECT") {
		t.Errorf("the view is %+v", look)
	}
}

// For a user who may not read the constraints, every field counts as constrained.
func TestSchemaOfUserWithoutRights(t *testing.T) {
	server := testenv.Tarantool(t, schemaScript)
	s, err := Load(t.Context(), mustConnect(t, server.Addr, "reader", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	if s.SpaceByName("computed") != nil {
		t.Error("a space that the user may not read is there")
	}
	if got := s.SpaceByName("docs").Constraint(1); !strings.Contains(got, "_ck_constraint") {
		t.Errorf("touched: %q", got)
	}
}

func TestWrongPassword(t *testing.T) {
	server := testenv.Tarantool(t, schemaScript)
	for _, user := range []string{"reader", "nobody"} {
		if _, err := connect(t, server.Addr, user, "wrong"); !errors.Is(err, ErrLogin) {
			t.Errorf("%s: %v", user, err)
		}
	}
	server.Kill()
	if _, err := connect(t, server.Addr, "reader", "secret"); !errors.Is(err, ErrUnreachable) {
		t.Errorf("a dead server: %v", err)
	}
}

// A changed schema has another version, also after a restart.
func TestSchemaVersion(t *testing.T) {
	server := testenv.Tarantool(t, schemaScript)
	c := mustConnect(t, server.Addr, "", "")
	first, err := Load(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load(t.Context(), c)
	if err != nil || again.Version != first.Version {
		t.Fatalf("version %d, then %d, %v", first.Version, again.Version, err)
	}
	if err := c.eval(t.Context(), `box.space.docs:create_index('more', {parts = {{7, 'scalar'}}, unique = false})`, nil, nil); err != nil {
		t.Fatal(err)
	}
	changed, err := Load(t.Context(), c)
	if err != nil || changed.Version <= first.Version || changed.SpaceByName("docs").Constraint(6) == "" {
		t.Fatalf("version %d, then %d, %v", first.Version, changed.Version, err)
	}
	server.Kill()
	if err := server.Restart(t); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the schema is read again", func() bool { _, err = Load(t.Context(), c); return err == nil })
}

// Frames may arrive in pieces of any size.
func TestVersionInPieces(t *testing.T) {
	frame := []byte{0xce, 0, 0, 0, 20, 0x83, 0, 0xce, 0, 0, 0, 0, 1, 0xcf, 0, 0, 0, 0, 0, 0, 0, 9, 5, 0xcd, 1}
	frame = append(frame, 2) // version 0x0102; the frame is one byte longer than 20
	frame[4] = byte(len(frame) - 5)
	empty := []byte{0xce, 0, 0, 0, 0}
	all := append(append(append([]byte{}, frame...), empty...), frame...)
	for size := 1; size <= len(all); size++ {
		w := &versionReader{to: &versionTracker{}}
		for rest := all; len(rest) > 0; {
			n := min(size, len(rest))
			w.saw(rest[:n])
			rest = rest[n:]
		}
		if got := w.to.newest.Load(); got != 0x102 {
			t.Fatalf("pieces of %d: version %#x", size, got)
		}
		if len(w.head) != 0 && w.left != 0 {
			t.Fatalf("pieces of %d: it waits for %d bytes more", size, w.left)
		}
	}
}

func FuzzVersion(f *testing.F) {
	f.Add([]byte{0xce, 0, 0, 0, 4, 0x81, 5, 0xcc, 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		whole, single := &versionReader{to: &versionTracker{}}, &versionReader{to: &versionTracker{}}
		whole.saw(b)
		for i := range b {
			single.saw(b[i : i+1])
		}
		if whole.to.newest.Load() != single.to.newest.Load() {
			t.Fatal("pieces give another version")
		}
	})
}
