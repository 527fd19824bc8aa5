package tarantool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// withModule starts a server in which cinch.lua is the global cinch.
func withModule(t *testing.T) *Conn {
	t.Helper()
	server := testenv.Tarantool(t, "")
	c := mustConnect(t, server.Addr, "", "")
	install(t, c, InstallOptions{})
	load(t, c)
	return c
}

// load loads the module again, without the dictionaries that it had cached.
func load(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.eval(t.Context(), `rawset(_G, 'cinch', loadstring(...)())`, []any{Module}, nil); err != nil {
		t.Fatal(err)
	}
}

// opened returns what the module decodes from a stored value, or its error's text.
func opened(t *testing.T, c *Conn, stored []byte, limit int) (value []byte, problem string) {
	t.Helper()
	var answer []any
	code := `local stored, limit = ... local ok, value = pcall(cinch.open, stored, limit) return ok, value`
	if err := c.eval(t.Context(), code, []any{text(stored), limit}, &answer); err != nil {
		t.Fatal(err)
	}
	result, _ := answer[1].(string)
	if answer[0] != true {
		return nil, result
	}
	return []byte(result), ""
}

// TestModuleVectors opens all vectors of docs/FORMAT.md in the codecs that the module has.
func TestModuleVectors(t *testing.T) {
	c := withModule(t)
	dir := filepath.Join("..", "..", "..", "envelope", "testdata", "vectors")
	var vectors []struct {
		Name, Stored, Value, Dictionary, Error string
		MaxRaw                                 int `json:"max_raw"`
	}
	if err := json.Unmarshal(read(t, dir, "index.json"), &vectors); err != nil {
		t.Fatal(err)
	}
	checked, left := 0, 0
	for _, v := range vectors {
		stored := read(t, dir, v.Stored)
		lua(t, c, `box.session.su('admin', function() box.space.cinch_dictionaries:truncate() end)`)
		load(t, c)
		if v.Dictionary != "" {
			x, err := codec.NewDict(read(t, dir, v.Dictionary))
			if err != nil {
				t.Fatal(err)
			}
			if err := NewDicts(c, nil).Publish(t.Context(), x); err != nil {
				t.Fatal(err)
			}
		}
		limit := 32 << 20
		if v.MaxRaw != 0 {
			limit = v.MaxRaw
		}
		value, problem := opened(t, c, stored, limit)
		h, err := envelope.ParseHeader(stored)
		switch foreign := err == nil && envelope.IsSealed(stored) && (h.Codec == codec.Snappy || h.Codec == codec.S2 || h.Codec == codec.MinLZ); {
		case v.Error != "" && problem == "":
			t.Errorf("%s: opens, and is %s", v.Name, v.Error)
		case v.Error != "" && !foreign && !strings.Contains(problem, class(v.Error)):
			t.Errorf("%s: %q, want %s", v.Name, problem, v.Error)
		case v.Error == "" && foreign:
			if left++; !strings.Contains(problem, "can only be opened by the gateway") {
				t.Errorf("%s: %q", v.Name, problem)
			}
		case v.Error == "" && (problem != "" || !bytes.Equal(value, read(t, dir, v.Value))):
			t.Errorf("%s: %q, %d bytes", v.Name, problem, len(value))
		}
		checked++
	}
	if checked < 100 || left == 0 || left > checked/2 {
		t.Errorf("%d vectors, of which %d are in other codecs", checked, left)
	}
}

func class(problem string) string {
	switch problem {
	case "unknown codec":
		return "is unknown"
	case "dictionary missing":
		return "is missing"
	case "too large":
		return "too large"
	case "tag": // checked before anything is decoded
		return "damaged (tag)"
	}
	return "damaged"
}

func read(t *testing.T, parts ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Values that the module seals can be opened by Go.
func TestModuleSeals(t *testing.T) {
	c := withModule(t)
	x := testDict(t, "sealing")
	d := NewDicts(c, nil)
	if err := d.Publish(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	s := envelope.NewSealer(envelope.SealerOptions{Dicts: d})
	value := bytes.Repeat([]byte("what values have in common, some more of it; "), 40)
	for _, options := range []string{`{codec = 'lz4'}`, `{}`, `{level = 19}`, fmt.Sprintf(`{dictionary = %d}`, x.Number())} {
		for _, v := range [][]byte{value, value[:70], []byte("short"), {}, []byte("\xc1\xdd\xdc"), append([]byte("\xc1\xdd\xdc\x15"), value...)} {
			var answer []string
			if err := c.eval(t.Context(), `return cinch.seal(..., `+options+`)`, []any{text(v)}, &answer); err != nil {
				t.Fatal(err)
			}
			got, err := s.Open(nil, []byte(answer[0]))
			if err != nil || !bytes.Equal(got, v) {
				t.Errorf("%s of %d bytes: %v", options, len(v), err)
			}
			if len(v) > 1000 && len(answer[0]) > len(v)/4 {
				t.Errorf("%s: %d bytes of %d", options, len(answer[0]), len(v))
			}
		}
	}
}

// TestModuleTrigger tests the storage layout: the server seals by itself.
func TestModuleTrigger(t *testing.T) {
	c := withModule(t)
	s := envelope.NewSealer(envelope.SealerOptions{})
	lua(t, c, `local s = box.schema.space.create('stored', {format = {{'id', 'unsigned'}, {'body', 'string'}}})
		s:create_index('pk') s:before_replace(cinch.trigger({'body'}, {codec = 'lz4'}))
		s:insert{1, ('text that repeats '):rep(100)} s:update(1, {{'=', 2, ('other text '):rep(100)}}) s:insert{2, 'short'} s:delete(2)`)
	stored := luaString(t, c, `return box.space.stored:get(1).body`)
	plain, err := s.Open(nil, []byte(stored))
	if err != nil || string(plain) != strings.Repeat("other text ", 100) || len(stored) > 100 {
		t.Fatalf("%d bytes stored, %v", len(stored), err)
	}
	lua(t, c, `box.space.stored:replace{3, box.space.stored:get(1).body}`)
	if again := luaString(t, c, `return box.space.stored:get(3).body`); again != stored {
		t.Error("an envelope was sealed once more")
	}
}

// Binaries keep their type, which Lua can't tell from a string.
func TestModuleTriggerBinaries(t *testing.T) {
	c := withModule(t)
	lua(t, c, `local s = box.schema.space.create('stored', {format = {{'id', 'unsigned'},
			{name = 'bin', type = 'varbinary', is_nullable = true}, {name = 'any', type = 'scalar', is_nullable = true}, {name = 'text', type = 'string', is_nullable = true}}})
		s:create_index('pk') s:before_replace(cinch.trigger({'bin', 'any', 'text'}, {codec = 'lz4'}))`)
	lua(t, c, fmt.Sprintf(`local value = [[X'%x']]
		local ok, err = box.execute([[INSERT INTO "stored" VALUES (1, ]] .. value .. [[, ]] .. value .. [[, 'text')]]) if not ok then error(err) end
		box.space.stored:update(1, {{'=', 'text', ('x'):rep(300)}})`, strings.Repeat("a", 300)))
	if got := luaString(t, c, `local r = box.execute([[SELECT typeof("bin"), typeof("any") FROM "stored"]]).rows[1] return r[1] .. ' ' .. r[2]`); got != "varbinary varbinary" {
		t.Error(got)
	}
	if got := luaString(t, c, `return box.space.stored:get(1).text`); !envelope.IsSealed([]byte(got)) {
		t.Errorf("the string is not sealed: %q", got)
	}
}
