package tarantool

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// tuple returns a tuple of docs to write, and seen the same tuple as the client reads it.
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
	if all := b.stats.Snapshot().Opened; len(all) != 1 || all[0].Values != 4 || all[0].CPUSeconds != 0 {
		t.Errorf("values of the client's own tuples were decompressed: %+v", all)
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

// A trigger may store another tuple than the one sent, with the same envelopes or others.
func TestTriggerChangesTuple(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	b.put(c, 1, document(1))
	b.direct().must(wire.Eval, 0x27, `box.space.docs:before_replace(function(old, new)
		return new:update({old and {'=', 3, old[3]} or {'=', 2, 'other'}})
	end)`, 0x21, []any{})
	for id, want := range map[int][]any{1: seen(1, document(2)), 2: seen(2, document(2))} {
		if id == 1 {
			want[2] = document(1)
		} else {
			want[1] = "other"
		}
		got := c.must(wire.Replace, 0x10, docs, 0x21, tuple(id, document(2))).([]any)
		if !reflect.DeepEqual(got[0], want) {
			t.Errorf("%d: %.120v", id, got)
		}
	}
}

// The format of a space may request compression, as in the Enterprise edition.
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

// Compressed fields must not move to a position where the server computes on them.
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

// Rewriting a request takes no more memory than the reader has taken from the budget for it, plus gateway.FreeBytes.
func TestRewritesFitTheirBudget(t *testing.T) {
	g := offline(t)
	defer g.cancel()
	rule := g.catalog.spaces.Load().byID[600].fields[1].rules[0]
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so that codec states stay in their pools
	noise := make([]byte, 1<<20)
	if _, err := rand.NewChaCha8([32]byte{}).Read(noise); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"text": strings.Repeat(abc, len(noise)/len(abc)), "noise": string(noise)} {
		for _, setting := range []codec.Setting{{Codec: codec.LZ4}, {Codec: codec.Zstd, Level: 3}, {Codec: codec.S2}} {
			rule.Setting = setting
			b := encode(t, wire.Insert, 7, nil, keyed{0x10, 600, 0x21, []any{1, value, 3, value[1:]}})
			budget := memory.NewBudget(64 << 20)
			account := budget.Share("g").Account(nil, nil)
			fits, took := false, uint64(0)
			for n := 0; n < 10 && !fits; n++ { // the race detector makes pools drop some entries
				in := newSession(g, &stored{rest: bytes.NewReader(b)}, nowhere{}).fromClient
				in.Account, in.AuthGate = account, nil
				f, err := in.next()
				if err != nil {
					t.Fatal(err)
				}
				r := request{bytes: f.body()}
				if err := parse(&r); err != nil {
					t.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				w, refused := g.rewrite(t.Context(), &r, tuples, 0)
				runtime.ReadMemStats(&after)
				if refused != nil || w.sealed != (name == "text") {
					t.Fatalf("sealed: %v, %v", w.sealed, refused)
				}
				took = uint64(len(f.bytes)) + after.TotalAlloc - before.TotalAlloc
				fits = took <= uint64(budget.InUse())+gateway.FreeBytes
				in.Free()
			}
			if !fits {
				t.Errorf("%s, %s: a request of %d bytes takes %d", name, setting, len(b), took)
			}
			account.Close()
		}
	}
}

// stored is a connection from which some bytes can be read.
type stored struct {
	nowhere
	rest *bytes.Reader
}

func (s *stored) Read(p []byte) (int, error) { return s.rest.Read(p) }

// The memory for a request's edits is released when the request has been handled, whatever the outcome.
func TestEditsAreGivenBack(t *testing.T) {
	many := func(n int) (list []any) {
		for range n {
			list = append(list, envelope.Magic)
		}
		return list
	}
	var operations []any
	for range 2 * maxIdleEdits {
		operations = append(operations, []any{"=", 2, envelope.Magic})
	}
	for name, test := range map[string]struct {
		typ  wire.Type
		body keyed
	}{
		"refused": {wire.Insert, keyed{0x10, 600, 0x21, many(maxEdits + 2)}},
		"sent":    {wire.Insert, keyed{0x10, 600, 0x21, many(2 * maxIdleEdits)}},
		"steps":   {wire.Update, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, append(operations, []any{":", 1, 0, 1, "X"})}},
	} {
		p := newParts(t)
		f := frame{encode(t, test.typ, 7, nil, test.body), 5}
		if err := p.s.handleRequest(&f); err != nil {
			t.Fatal(err)
		}
		if n := cap(p.s.req.edits); n > maxIdleEdits {
			t.Errorf("%s: room for %d edits is kept", name, n)
		}
	}
}

func TestStoresPlain(t *testing.T) {
	p := newParts(t)
	r := p.request(wire.Update, 0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{":", 2, 1, 1, "x"}})
	all := p.g.catalog.spaces.Load()
	sealed := append([]byte{0x91, 0xd9, byte(len(p.sealed(abc)))}, p.sealed(abc)...)
	for name, test := range map[string]struct {
		tuple []byte
		err   error
		want  bool
	}{
		"no tuple":   {nil, nil, true},
		"plain":      {[]byte{0x91, 0xa1, 'x'}, nil, true},
		"compressed": {sealed, nil, false},
		"read error": {nil, net.ErrClosed, false},
		"malformed":  {[]byte{0x91, 0xa5, 'x'}, nil, false},
	} {
		p.g.cfg.ReadTuple = func(_ context.Context, space, index uint32, key []byte) ([]byte, error) {
			if space != 600 || index != 0 || !slices.Equal(key, []byte{0x91, 1}) {
				t.Errorf("space %d, index %d, key % x", space, index, key)
			}
			return test.tuple, test.err
		}
		if got := p.g.storesPlain(t.Context(), r, stepPlan{space: all.byID[600], spaces: all, noFunction: noMemory}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	p.g.cfg.ReadTuple = nil
	if p.g.storesPlain(t.Context(), r, stepPlan{}) {
		t.Error("without ReadTuple")
	}
}
