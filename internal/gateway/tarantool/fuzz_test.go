package tarantool

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// offline returns a gateway without a server. Its schema has one space, 600, whose fields 2 and 4 are
// compressed.
func offline(t testing.TB) *Gateway {
	t.Helper()
	lz4 := codec.Setting{Codec: codec.LZ4}
	p, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Types: policy.Tuple, MinSize: 1, MinGain: policy.AnyGain, Setting: lz4},
		{Key: "f", Field: "1", Types: policy.Argument, MinSize: 1, MinGain: policy.AnyGain, Setting: lz4},
		{Key: "f", Field: "2.a", Types: policy.Argument, MinSize: 1, MinGain: policy.AnyGain, Setting: lz4},
	}})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGateway(Config{Policy: p, Schema: func(context.Context) (*schema.Schema, error) { return nil, errors.New("offline") }})
	s := &space{ruled: true, Space: &schema.Space{ID: 600, Name: "docs", FieldCount: 5, Fields: []schema.Field{{}, {Number: 1, Name: "a"}, {Number: 2, Name: "doc"}}}}
	s.fields = []field{{}, {rules: p.Rules()[:1], guarded: true}, {}, {rules: p.Rules()[:1], guarded: true}}
	g.catalog.spaces.Store(&spaces{
		version: 9, activeCallRules: p.Rules()[1:], guarded: []string{"docs"},
		byID: map[uint32]*space{600: s}, byName: map[string]*space{"docs": s},
	})
	return g
}

// canonical returns the values in b with all heads of strings in their shortest form, and all envelopes decompressed.
func canonical(t *testing.T, g *Gateway, b []byte) []byte {
	t.Helper()
	var out []byte
	last := 0
	strings := wire.NewStrings(b, wire.Span{Len: len(b)})
	for strings.Next() {
		content := strings.Content.Of(b)
		value, err := g.codec.Sealer.Open(nil, content)
		if err != nil {
			value = content
		}
		out = append(out, b[last:strings.At]...)
		out = append(wire.AppendHead(out, strings.Kind, len(value)), value...)
		last = strings.Content.End()
	}
	if strings.Err() != nil {
		t.Fatal(strings.Err())
	}
	return append(out, b[last:]...)
}

// FuzzRewrite checks that any rewritten request is a complete frame, and is equivalent to the original when its
// values are decompressed.
func FuzzRewrite(f *testing.F) {
	long := string(bytes.Repeat([]byte("abc "), 30))
	t := &testing.T{}
	for _, r := range []struct {
		typ  wire.Type
		body keyed
	}{
		{wire.Insert, keyed{0x10, 600, 0x21, []any{1, long, 3, []byte(long)}}},
		{wire.Replace, keyed{0x5e, "docs", 0x21, []any{1, long}}},
		{wire.Update, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x15, 1, 0x21, []any{[]any{"=", 2, long}, []any{"!", "a", long}, []any{":", 9, 1, 1, "x"}}}},
		{wire.Upsert, keyed{0x28, []any{[]any{"=", -2, long}, []any{"=", "[4]", long}, []any{"=", "doc.x", long}}, 0x10, 600, 0x21, []any{1, envelope.Magic + long}}},
		{wire.Call, keyed{0x22, "f", 0x21, []any{long, map[string]any{"a": long}}}},
		{wire.Call, keyed{0x22, "f", 0x21, []any{long, []any{":", "doc", 1, 2, long}, map[string]any{"a": long}}}},
		{wire.Call, keyed{0x22, "vshard.storage.call", 0x21, []any{1, "write", "_crud.call_on_storage", []any{"guest", "_crud.update_on_storage", "docs", 1, []any{[]any{"#", 4, 1}, []any{":", 3, 1, 2, long}}}}}},
		{wire.Call16, keyed{0x22, "box.space.docs:update", 0x21, []any{1, []any{[]any{":", "doc", 1, 2, long}}}}},
		{wire.Eval, keyed{0x27, "return {':', 1, 2, 3, 4}", 0x21, []any{}}},
	} {
		f.Add(encode(t, r.typ, 7, nil, r.body)[5:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g := offline(t)
		defer g.cancel()
		r := request{bytes: b}
		if r.header.Parse(b) != nil || r.body.Parse(b, r.header.Map.End()) != nil {
			return
		}
		h := handlingOf(r.header.Type)
		switch h {
		case tuples, updates, upserts, calls:
		default:
			return
		}
		before := bytes.Clone(b)
		w, refused := g.rewrite(t.Context(), &r, h, 0)
		if !bytes.Equal(b, before) {
			t.Fatal("what the client sent was changed")
		}
		out := w.bytes
		if refused != nil || out == nil {
			return
		}
		n, size, err := wire.Prefix(out)
		if err != nil || size+n != len(out) {
			t.Fatalf("%d bytes, not %d + %d: %v", len(out), size, n, err)
		}
		want := before
		if w.stamp != 0 {
			want = wire.AppendStamped(nil, before, &r.header, 9)
			want = append(want, before[r.header.Map.End():]...)
		}
		if hasMagic(before) {
			return // envelopes in the original would be decompressed too
		}
		if len(b) > r.body.End {
			return // the bytes behind the body need not be values
		}
		if got := canonical(t, g, out[size:]); !bytes.Equal(got, canonical(t, g, want)) {
			t.Fatalf("% x\nbecame\n% x", want, got)
		}
	})
}

// FuzzOperations checks that, for any UPDATE or UPSERT and any tuple, the frame of the step is complete, and its
// operations are one MessagePack value.
func FuzzOperations(f *testing.F) {
	s := envelope.NewSealer(envelope.SealerOptions{})
	sealed := string(s.Seal(nil, bytes.Repeat([]byte("abc "), 30), codec.Setting{Codec: codec.LZ4}, nil))
	t := &testing.T{}
	for _, ops := range [][]any{
		{[]any{":", 1, 1, 1, "x"}, []any{":", -1, -5, -2, ""}, []any{"#", 1, 1}, []any{"!", -1, sealed}},
		{[]any{"=", 7, "x"}, []any{":", "[2]", 1 << 40, 1, "x"}, []any{":", "doc.a", 1, 1}},
	} {
		tuple, _ := msgp.AppendIntf(nil, unsigned([]any{1, sealed, sealed, nil}))
		for _, typ := range []wire.Type{wire.Update, wire.Upsert} {
			f.Add(encode(t, typ, 7, nil, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x15, 1, 0x21, ops, 0x28, ops})[5:], tuple)
		}
	}
	f.Fuzz(func(t *testing.T, b, tuple []byte) {
		g := offline(t)
		defer g.cancel()
		r := request{bytes: b}
		if r.header.Parse(b) != nil || r.body.Parse(b, r.header.Map.End()) != nil || r.header.Type != wire.Update && r.header.Type != wire.Upsert {
			return
		}
		if end, err := wire.Skip(tuple, 0); err != nil || end != len(tuple) {
			return
		}
		all := g.catalog.spaces.Load()
		u, refused := newUpdater(g.codec, &r, stepPlan{space: all.byID[600], spaces: all, noFunction: noMemory})
		if refused != nil {
			return
		}
		u.server = schema.Version{Major: 2 + len(tuple)%2, Minor: 6}
		frame, refused := u.call(1<<63, tuple)
		if refused != nil {
			return
		}
		n, size, err := wire.Prefix(frame)
		if err != nil || size+n != len(frame) {
			t.Fatalf("%d bytes, not %d + %d: %v", len(frame), size, n, err)
		}
		var h wire.Header
		var body wire.Body
		if h.Parse(frame[size:]) != nil || body.Parse(frame[size:], h.Map.End()) != nil {
			t.Fatalf("% x", frame)
		}
		args, _, err := wire.Elements(nil, frame[size:], body.Tuple.At, 6)
		if err != nil || len(args) != 6 {
			t.Fatalf("%d arguments: %v", len(args), err)
		}
		ops, _ := wire.Text(args[4].Of(frame[size:]))
		if end, err := wire.Skip(ops, 0); err != nil || end != len(ops) {
			t.Fatalf("operations % x: %v", ops, err)
		}
	})
}

// FuzzOpen checks that decompressed replies are complete frames in which nothing else has changed.
func FuzzOpen(f *testing.F) {
	s := envelope.NewSealer(envelope.SealerOptions{})
	long := bytes.Repeat([]byte("abc "), 30)
	sealed := s.Seal(nil, long, codec.Setting{Codec: codec.LZ4}, nil)
	t := &testing.T{}
	f.Add(encode(t, wire.OK, 7, nil, keyed{0x30, []any{[]any{1, string(sealed), sealed, map[string]any{string(sealed): 1}}}})[5:])
	f.Add(encode(t, wire.OK, 7, nil, keyed{0x30, []any{string(sealed[:len(sealed)-1]), envelope.Magic}})[5:])
	f.Fuzz(func(t *testing.T, b []byte) {
		g := offline(t)
		defer g.cancel()
		s := newSession(g, nowhere{}, nowhere{})
		defer s.Close()
		r := &reply{bytes: b}
		if r.header.Parse(b) != nil {
			return
		}
		out, refused := s.decodeReply(r, &exchange{kind: wire.Select})
		if out == nil || refused != nil {
			return
		}
		if _, size, err := wire.Prefix(out); err != nil || size == 0 {
			t.Fatal(err)
		}
		if r.body.End < len(b) {
			return
		}
		if got, want := canonical(t, g, out[5:]), canonical(t, g, b); !bytes.Equal(got, want) {
			// Values that were compressed twice are decompressed once.
			if !hasMagic(out) {
				t.Fatalf("% x\nbecame\n% x", want, got)
			}
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{"a", ".a", "a.b", "[2]", "[2].x", `["a"]`, `['a'][1]`, "[", `["`, "", ".", "[]", `["a"`, "[99999999999999999999]"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		g := offline(t)
		defer g.cancel()
		if got := g.catalog.spaces.Load().byID[600].targetByPath([]byte(path)); got.known && got.position < 0 {
			t.Fatalf("%q: %+v", path, got)
		}
	})
}
