package tarantool

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// tuple returns a tuple of docs, and seen the same tuple as it is read.
func tuple(id int, doc string) []any { return []any{id, "tag", doc, nil, []byte(doc + "bin")} }

func seen(id int, doc string) []any { return []any{int64(id), "tag", doc, nil, []byte(doc + "bin")} }

func (b *bed) put(c *raw, id int, doc string) {
	b.t.Helper()
	c.must(wire.Replace, 0x10, docs, 0x21, tuple(id, doc))
}

// check compares the document as read through the gateway, and checks whether it is stored compressed.
func (b *bed) check(c *raw, id int, doc string, wantSealed bool) {
	b.t.Helper()
	if got := c.selectOne(docs, id); got[2] != doc {
		b.t.Errorf("through the gateway: %.60q, want %.60q", got[2], doc)
	}
	if stored := b.direct().selectOne(docs, id)[2]; sealed(stored) != wantSealed {
		b.t.Errorf("stored: %.60q", stored)
	}
}

func TestTuplesAreSealedAndOpened(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	for _, typ := range []wire.Type{wire.Insert, wire.Replace} {
		got := c.must(typ, 0x10, docs, 0x21, tuple(1, document(1))).([]any)
		if !reflect.DeepEqual(got[0], seen(1, document(1))) {
			t.Fatalf("type %d echoes %v", typ, got)
		}
	}
	stored := b.direct().selectOne(docs, 1)
	if !sealed(stored[2]) || !sealed(stored[4]) || sealed(stored[1]) {
		t.Fatalf("stored: %.80q", stored)
	}
	if _, ok := stored[4].([]byte); !ok {
		t.Errorf("a binary became %T", stored[4])
	}
	if got := c.selectOne(docs, 1); !reflect.DeepEqual(got, seen(1, document(1))) {
		t.Errorf("got %v", got)
	}
	if got := c.must(wire.Delete, 0x10, docs, 0x11, 0, 0x20, []any{1}).([]any); !reflect.DeepEqual(got[0], seen(1, document(1))) {
		t.Errorf("delete answers %v", got)
	}
}

// A space's own format names the compression, as in the Enterprise edition.
func TestFormatNamesCompression(t *testing.T) {
	b := newBed(t, policy.Options{}, nil)
	c := b.client()
	c.must(wire.Insert, 0x10, kept, 0x21, []any{1, document(1)})
	stored := b.direct().selectOne(kept, 1)[1]
	if h, err := envelope.ParseHeader([]byte(stored.(string))); err != nil || h.Codec != codec.LZ4 {
		t.Errorf("stored: %.60q: %v", stored, err)
	}
	if got := c.selectOne(kept, 1)[1]; got != document(1) {
		t.Errorf("got %.60q", got)
	}
}

func TestUpdates(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	long := document(2)
	for name, u := range map[string]struct {
		ops    []any
		base   any
		want   string
		sealed bool
	}{
		"by number":           {[]any{[]any{"=", 2, long}}, nil, long, true},
		"by number, as Lua":   {[]any{[]any{"=", 3, long}}, 1, long, true},
		"by name":             {[]any{[]any{"=", "doc", long}}, nil, long, true},
		"by path of a name":   {[]any{[]any{"=", `["doc"]`, long}}, nil, long, true},
		"by path of a number": {[]any{[]any{"=", "[3]", long}}, nil, long, true},
		"from the end":        {[]any{[]any{"=", -3, long}}, nil, long, false},
		"short":               {[]any{[]any{"=", "doc", "short"}}, nil, "short", false},
		"others":              {[]any{[]any{"=", "extra", map[string]any{"a": 1}}, []any{"=", "tag", "new"}}, nil, document(1), true},
		"in a map":            {[]any{[]any{"=", "extra", map[string]any{"a": long}}}, nil, document(1), true},
	} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			b.put(c, 1, document(1))
			body := []any{0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, u.ops}
			if u.base != nil {
				body = append(body, 0x15, u.base)
			}
			got := c.must(wire.Update, body...).([]any)[0].([]any)
			if got[2] != u.want {
				t.Errorf("it echoes %.60q", got[2])
			}
			b.check(c, 1, u.want, u.sealed)
		})
	}
}

func TestInsertionByUpdate(t *testing.T) {
	b := newBed(t, policy.Options{Rules: []policy.Rule{{Key: "plain", Field: "2", Types: policy.Tuple, Setting: codec.Setting{Codec: codec.LZ4}}}}, nil)
	c := b.client()
	c.must(wire.Insert, 0x10, plain, 0x21, []any{1, "x"})
	c.must(wire.Update, 0x10, plain, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"!", 1, document(1)}})
	if got := b.direct().selectOne(plain, 1); !sealed(got[1]) || got[2] != "x" {
		t.Errorf("stored: %.80q", got)
	}
	if got := c.selectOne(plain, 1); got[1] != document(1) {
		t.Errorf("got %.80q", got)
	}
}

func TestSpliceIsRefused(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	b.put(c, 1, document(1))
	for name, op := range map[string][]any{
		"by number":    {":", 2, 0, 1, "X"},
		"by name":      {":", "doc", 0, 1, "X"},
		"by path":      {":", "[3]", 0, 1, "X"},
		"from the end": {":", -3, 0, 1, "X"},
	} {
		a := c.do(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{op})
		if a.code != wire.ErrorFlag|wire.ErrUnsupported || !strings.Contains(a.text, "splice") {
			t.Errorf("%s: %#x %s", name, a.code, a.text)
		}
		a = c.do(wire.Upsert, 0x10, docs, 0x21, tuple(1, document(1)), 0x28, []any{op})
		if a.code != wire.ErrorFlag|wire.ErrUnsupported {
			t.Errorf("%s, upsert: %#x %s", name, a.code, a.text)
		}
	}
	b.check(c, 1, document(1), true)
	// Splices of a field without a rule are left to the server.
	c.must(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{":", "tag", 0, 1, "X"}})
	if got := c.selectOne(docs, 1)[1]; got != "Xag" {
		t.Errorf("tag is %v", got)
	}
}

func TestUpserts(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	for _, want := range []string{document(1), document(2)} { // inserts, then updates
		c.must(wire.Upsert, 0x10, docs, 0x21, tuple(1, document(1)), 0x28, []any{[]any{"=", 2, document(2)}})
		b.check(c, 1, want, true)
	}
}

// Fields must not move to where the server computes on them.
func TestShiftsAreRefused(t *testing.T) {
	b := newBed(t, policy.Options{Rules: []policy.Rule{{Key: "wide", Field: "[24]", Types: policy.Tuple, Setting: codec.Setting{Codec: codec.LZ4}}}}, nil)
	c := b.client()
	c.must(wire.Eval, 0x27, `local s = box.schema.space.create('wide', {id = 700}) s:create_index('pk')
		s:create_index('third', {parts = {{3, 'string'}}})`, 0x21, []any{})
	c.must(wire.Insert, 0x10, 700, 0x21, []any{1, document(1), "a", document(2)})
	for _, op := range [][]any{{"!", 1, "x"}, {"#", 1, 1}} {
		a := c.do(wire.Update, 0x10, 700, 0x11, 0, 0x20, []any{1}, 0x21, []any{op})
		if a.code != wire.ErrorFlag|wire.ErrUnsupported || !strings.Contains(a.text, "third") {
			t.Errorf("%v: %#x %s", op, a.code, a.text)
		}
	}
	c.must(wire.Update, 0x10, 700, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"!", 4, "x"}})
}

func TestCalls(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	for id, call := range map[int][]any{
		1: {0x22, "put", 0x21, []any{1, document(1)}},
		2: {0x22, "put_table", 0x21, []any{map[string]any{"id": 2, "doc": document(2)}}},
	} {
		got := c.must(wire.Call, call...).([]any)[0].([]any)
		if got[2] != document(id) {
			t.Errorf("call %d returns %.60q", id, got)
		}
		b.check(c, id, document(id), true)
	}
	got := c.must(wire.Call, 0x22, "get", 0x21, []any{1}).([]any)
	tree := got[0].(map[string]any)
	shallow := tree["found"].([]any)[0].([]any)[0].([]any)
	deep := tree["deep"].([]any)[0].([]any)[0].([]any)[0].([]any)
	for _, tuple := range [][]any{shallow, deep, got[1].([]any)} {
		if tuple[2] != document(1) {
			t.Errorf("get returns %.60q", tuple[2])
		}
	}
	evaluated := c.must(wire.Eval, 0x27, "return box.space.docs:get(...).doc, {box.space.docs:get(...)}", 0x21, []any{2}).([]any)
	if evaluated[0] != document(2) || evaluated[1].([]any)[0].([]any)[2] != document(2) {
		t.Errorf("eval returns %.60q", evaluated)
	}
	if old := c.must(wire.Call16, 0x22, "get", 0x21, []any{1}); !strings.Contains(string(c.last.frame), document(1)) {
		t.Errorf("call_16 returns %v", old)
	}
}

func TestPush(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	b.put(c, 1, document(1))
	sync := c.send(wire.Call, 0x22, "push", 0x21, []any{1})
	part, end := c.read(), c.read()
	if part.code != wire.Chunk || part.sync != sync || part.data.([]any)[0].([]any)[2] != document(1) {
		t.Errorf("%#x %v", part.code, part.data)
	}
	if end.code != wire.OK || end.sync != sync {
		t.Errorf("%#x", end.code)
	}
}

func TestSQL(t *testing.T) {
	statements := map[string][3]bool{ // answered in refuse, projection, pass
		`SELECT "id", "doc" FROM "docs" WHERE "id" = 1`:                   {false, true, true},
		`SELECT * FROM "docs"`:                                            {false, true, true},
		`SELECT length("doc") FROM "docs"`:                                {false, false, true},
		`SELECT "id" FROM "docs" WHERE "doc" LIKE 'x%'`:                   {false, false, true},
		`SELECT "id" FROM "docs" ORDER BY "doc"`:                          {false, false, true},
		`UPDATE "docs" SET "doc" = 'x' WHERE "id" = 77`:                   {false, false, true},
		`SELECT "id" FROM "docs" WHERE "id" IN (SELECT "id" FROM "docs")`: {false, false, true},
		`SELECT "id", "doc" FROM "look" WHERE "id" = 1`:                   {false, true, true},
		`SELECT upper("doc") FROM "look"`:                                 {false, false, true},
		`SELECT "id", "doc" FROM "docs" ORDER BY "id" LIMIT 1`:            {false, true, true},
		`SELECT "id", "doc" FROM "docs" ORDER BY 2`:                       {false, false, true},
		`SELECT "doc" FROM "docs" GROUP BY 1`:                             {false, false, true},
		`SELECT "doc" FROM "docs" EXCEPT VALUES (?)`:                      {false, false, true},
		`SELECT "id" FROM "docs" NATURAL JOIN "look"`:                     {false, false, true},
		`SELECT "i" FROM "renamed" WHERE "d" = ?`:                         {false, false, true},
		`SELECT "i", "d" FROM "computed"`:                                 {false, false, true},
		`SELECT 1`:                                                        {true, true, true},
	}
	for mode := SQLRefuse; mode <= SQLPass; mode++ {
		b := newBed(t, policy.Options{Rules: rules()}, func(c *Config) { c.SQL = mode })
		c := b.client()
		b.put(c, 1, document(1))
		for _, view := range []string{
			`"look" AS SELECT "id", "doc" FROM "docs"`, `"renamed" AS SELECT "id" AS "i", "doc" AS "d" FROM "docs"`,
			`"computed" AS SELECT "id" AS "i", length("doc") AS "d" FROM "docs"`,
		} {
			b.direct().must(wire.Execute, 0x40, "CREATE VIEW "+view, 0x41, []any{})
		}
		c.must(wire.Eval, 0x27, "return 1", 0x21, []any{}) // shows the new version
		for text, want := range statements {
			for _, typ := range []wire.Type{wire.Execute, wire.Prepare} {
				a := c.do(typ, 0x40, text, 0x41, []any{})
				if refused := a.code == wire.ErrorFlag|wire.ErrUnsupported; refused == want[mode] {
					t.Errorf("mode %d: %s: %#x %s", mode, text, a.code, a.text)
				}
				if a.code == wire.OK && typ == wire.Execute && strings.Contains(text, "1") && bytes.Contains(a.frame, magic) {
					t.Errorf("mode %d: %s: sealed bytes", mode, text)
				}
			}
		}
	}
}

// Values that begin like an envelope are wrapped, or refused where they can't be.
func TestMagicInValues(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	evil := envelope.Magic + "evil"
	b.put(c, 1, evil)
	b.check(c, 1, evil, true)
	c.must(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"=", "doc", evil + "2"}})
	b.check(c, 1, evil+"2", true)
	c.must(wire.Insert, 0x10, plain, 0x21, []any{1, 2, 3, evil}) // no rule there
	if got := c.selectOne(plain, 1)[3]; got != evil {
		t.Errorf("got %q", got)
	}
	for name, req := range map[string][]any{
		"indexed": {int(wire.Insert), 0x10, docs, 0x21, []any{9, evil, "doc"}},
		"nested":  {int(wire.Insert), 0x10, docs, 0x21, []any{9, "tag", "doc", []any{evil}}},
		"by path": {int(wire.Update), 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"=", "extra.a", evil}}},
		"at end":  {int(wire.Update), 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"=", -1, evil}}},
	} {
		a := c.do(wire.Type(req[0].(int)), req[1:]...)
		if a.code != wire.ErrorFlag|wire.ErrUnsupported {
			t.Errorf("%s: %#x %s", name, a.code, a.text)
		}
	}
}

// A damaged envelope, or one with a missing dictionary or too large a value, becomes an error reply like the
// server's.
func TestBrokenEnvelopes(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c, direct := b.client(), b.direct()
	s := envelope.NewSealer(envelope.SealerOptions{})
	good := s.Seal(nil, []byte(document(1)), codec.Setting{Codec: codec.LZ4}, nil)
	damaged := append([]byte{}, good...)
	damaged[len(damaged)-1] ^= 1
	missing := envelope.Header{Version: 1, Codec: codec.Zstd, HasDict: true, Dict: 77, RawLen: 10}.Append(nil)
	huge := envelope.Header{Version: 1, Codec: codec.Zstd, RawLen: 1 << 34}.Append(nil)
	for i, bad := range [][]byte{damaged, missing, huge, []byte(envelope.Magic)} {
		direct.must(wire.Replace, 0x10, docs, 0x21, []any{1, "tag", string(bad)})
		a := c.do(wire.Select, 0x10, docs, 0x11, 0, 0x12, 1, 0x13, 0, 0x14, 0, 0x20, []any{1})
		if a.code != wire.ErrorFlag|wire.ErrSystem || !strings.Contains(a.text, "can't be decompressed") {
			t.Errorf("%d: %#x %s", i, a.code, a.text)
		}
		if i < 3 {
			c.send(wire.Call, 0x22, "push", 0x21, []any{1})
			if a := c.read(); a.code != wire.ErrorFlag|wire.ErrSystem {
				t.Errorf("%d, pushed: %#x", i, a.code)
			}
		}
	}
	// Lua may return any bytes.
	if got := c.must(wire.Eval, 0x27, "return '\xC1\xDD\xDC'", 0x21, []any{}).([]any); got[0] != envelope.Magic {
		t.Errorf("got %q", got)
	}
	for class, n := range map[string]uint64{"damaged": 3, "dictionary_missing": 2, "too_large": 2} {
		if got := b.stats.Snapshot().Errors[class]; got != n {
			t.Errorf("%s: %d, want %d", class, got, n)
		}
	}
}
