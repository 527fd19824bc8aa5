package tarantool

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tinylib/msgp/msgp"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
	"github.com/cinch-layer/cinch/test/testenv"
)

var abc = strings.Repeat("abc ", 30)

// severalSplices holds operations on the second field, whose value is abc, with the field's value afterwards in
// Tarantool 3.3.0. Fields and offsets count from 1.
var severalSplices = []struct {
	ops  []any
	want string
}{
	{[]any{[]any{":", 2, -1, 0, "yz"}, []any{":", 2, -1, 0, "XYZ"}}, abc + "yzXYZ"},
	{[]any{[]any{":", 2, 1, 4, ""}, []any{":", 2, 1, 4, "first "}, []any{":", 2, 7, 3, "cba"}}, "first cba " + abc[12:]},
	{[]any{[]any{":", 2, 1, 1000, ""}, []any{":", 2, 1, 1, "all"}}, "all"},
	{[]any{[]any{"=", 2, "other"}, []any{":", 2, 1, 1, "an"}, []any{":", 2, -1, 0, "!"}}, "anther!"},
	{[]any{[]any{":", 2, 1, 1, "X"}, []any{"=", 2, "other"}}, "other"},
	{[]any{[]any{":", 2, 1, 1, "X"}, []any{"!", 2, "new"}, []any{":", 3, 1, 1, "Y"}, []any{"#", 2, 1}}, "Y" + abc[1:]},
	{[]any{[]any{":", 2, 1, 1, "X"}, []any{"=", 1, 1}, []any{":", 2, 3, 1, "Z"}}, "XbZ" + abc[3:]},
}

// operationsFor returns the operations that carry out an UPDATE of [1, envelope of abc, 3] on a server.
func operationsFor(t *testing.T, g *Gateway, server schema.Version, ops []any) ([]byte, *refusal) {
	t.Helper()
	sealed, _ := g.codec.encode(nil, []byte(abc), g.catalog.spaces.Load().byID[600].fields[1].rules[0], "")
	tuple, err := msgp.AppendIntf(nil, unsigned([]any{1, string(sealed), 3}))
	if err != nil || !envelope.IsSealed(sealed) {
		t.Fatal(err)
	}
	b := encode(t, wire.Update, 7, nil, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x15, 1, 0x21, ops})[5:]
	r := request{bytes: b}
	if err := r.header.Parse(b); err != nil {
		t.Fatal(err)
	}
	if err := r.body.Parse(b, r.header.Map.End()); err != nil {
		t.Fatal(err)
	}
	if _, refused := g.collectTuple(t.Context(), &r, updates); refused != nil {
		t.Fatal(refused)
	}
	all := g.catalog.spaces.Load()
	u, refused := newUpdater(g.codec, &r, stepPlan{space: all.byID[600], spaces: all, noFunction: noMemory})
	if refused != nil {
		t.Fatal(refused)
	}
	u.server = server
	return u.operations(tuple)
}

// newerServer applies operations as Tarantool does from 3.0 on: each operation to the result of those before. sealed
// counts the splices that insert an envelope.
func newerServer(t *testing.T, g *Gateway, fields [][]byte, ops []byte) (_ [][]byte, sealed int) {
	t.Helper()
	v, rest, err := msgp.ReadIntfBytes(ops)
	if err != nil || len(rest) > 0 {
		t.Fatal(err)
	}
	number := func(v any) int {
		var n int
		_, _ = fmt.Sscan(fmt.Sprint(v), &n)
		return n
	}
	for _, op := range v.([]any) {
		op := op.([]any)
		at := number(op[1]) - 1
		switch op[0] {
		case "=":
			fields[at] = []byte(fmt.Sprint(op[2]))
		case "!":
			fields = append(fields[:at], append([][]byte{[]byte(op[2].(string))}, fields[at:]...)...)
		case "#":
			fields = append(fields[:at], fields[at+1:]...)
		case ":":
			c := spliceArgs{offset: int64(number(op[2])), length: int64(number(op[3])), paste: []byte(op[4].(string))}
			if c.offset >= 0 {
				c.offset--
			}
			from, to, ok := c.cutRange(len(fields[at]))
			if !ok {
				t.Fatalf("%v is out of bounds", op)
			}
			if envelope.IsSealed(c.paste) {
				sealed++
			}
			fields[at] = []byte(string(fields[at][:from]) + string(c.paste) + string(fields[at][to:]))
		}
	}
	return fields, sealed
}

// Several splices of a field, for a server that accepts several operations on a field, have the results that a real
// 3.3.0 had (TestSeveralSplices compares with a real server if there is one). The value is compressed once, by the last
// splice.
func TestSeveralSplicesOffline(t *testing.T) {
	g := offline(t)
	defer g.cancel()
	for _, c := range severalSplices {
		ops, refused := operationsFor(t, g, schema.Version{Major: 3, Minor: 3}, c.ops)
		if refused != nil {
			t.Errorf("%v: %v", c.ops, refused)
			continue
		}
		fields, sealed := newerServer(t, g, [][]byte{[]byte("1"), []byte("what is stored"), []byte("3")}, ops)
		got, err := g.codec.Sealer.Open(nil, fields[1])
		if err != nil || string(got) != c.want || sealed > 1 {
			t.Errorf("%v: %q, sealed %d times, %v", c.ops, got, sealed, err)
		}
	}
	ops, _ := operationsFor(t, g, schema.Version{Major: 2, Minor: 6}, severalSplices[0].ops)
	if v, _, err := msgp.ReadIntfBytes(ops); err != nil || fmt.Sprint(v.([]any)[1].([]any)[2]) != fmt.Sprint(-math.MaxInt32) {
		t.Errorf("for an older server: %v, %v", v, err)
	}
	if _, refused := operationsFor(t, g, schema.Version{}, severalSplices[0].ops); refused == nil {
		t.Error("for one of which nothing is known they are made up")
	}
	if _, refused := operationsFor(t, g, schema.Version{}, severalSplices[0].ops[:1]); refused != nil {
		t.Errorf("one is right for all: %v", refused)
	}
}

// The memory for a request does not include a copy of the value for each splice.
func TestSeveralSplicesTakeOneValue(t *testing.T) {
	g := offline(t)
	defer g.cancel()
	var many []any
	for range maxOperations {
		many = append(many, []any{":", 2, 1, 0, "some more "})
	}
	ops, refused := operationsFor(t, g, schema.Version{Major: 3, Minor: 3}, many)
	if refused != nil || len(ops) > 32*maxOperations+10*maxOperations {
		t.Errorf("%d bytes: %v", len(ops), refused)
	}
}

// UPDATE and UPSERT with several operations on a field, and with splices of binaries, have the same results through the
// gateway as on a server itself.
func TestSeveralSplices(t *testing.T) {
	for _, p := range testenv.TarantoolPrograms(t) {
		t.Run(p.Name, func(t *testing.T) { severalOn(t, p) })
	}
}

func severalOn(t *testing.T, p testenv.TarantoolProgram) {
	zstd := codec.Setting{Codec: codec.Zstd, Level: 3}
	all := []policy.Rule{{Name: "all", Types: policy.Tuple, MinSize: 1, MinGain: policy.AnyGain, Setting: zstd}}
	b, other := newBedOf(t, p.Path, policy.Options{Rules: all}, nil), newBedOf(t, p.Path, policy.Options{}, nil)
	b.install()
	through, direct := b.client(), other.direct()
	both := func(typ wire.Type, body ...any) (got, want answer) {
		return through.do(typ, body...), direct.do(typ, body...)
	}
	cases := severalSplices
	for _, ops := range [][]any{
		{[]any{":", 2, 1, 1, []byte("X")}},
		{[]any{":", 2, 1, 1, "X"}, []any{":", 2, 2, 1, []byte("Y")}},
		{[]any{":", 2, -500, 1, "X"}, []any{":", 2, -1, 0, "Y"}},
		{[]any{":", 2, -1, 0, "Y"}, []any{":", 2, -500, 1, "X"}},
	} {
		cases = append(cases, struct {
			ops  []any
			want string
		}{ops, ""})
	}
	for _, value := range []any{abc, []byte(abc)} {
		for _, c := range cases {
			for _, typ := range []wire.Type{wire.Update, wire.Upsert} {
				both(wire.Replace, 0x10, 601, 0x21, []any{1, value, 3})
				body := keyed{0x10, 601, 0x11, 0, 0x20, []any{1}, 0x15, 1, 0x21, c.ops}
				if typ == wire.Upsert {
					body = keyed{0x10, 601, 0x15, 1, 0x21, []any{1, value, 3}, 0x28, c.ops}
				}
				got, want := both(typ, body...)
				if got.code != want.code || got.text != want.text {
					t.Errorf("%d %v of %T: %#x %s\nwant %#x %s", typ, c.ops, value, got.code, got.text, want.code, want.text)
				}
				read := keyed{0x10, 601, 0x11, 0, 0x12, 9, 0x13, 0, 0x14, 2, 0x20, []any{}}
				got, want = both(wire.Select, read...)
				if string(got.body(t)) != string(want.body(t)) {
					t.Errorf("%d %v of %T: it has % .200x\nwant % .200x", typ, c.ops, value, got.body(t), want.body(t))
				}
				if _, text := value.(string); p.Name == "newer" && text && c.want != "" && !strings.Contains(string(want.body(t)), c.want) {
					t.Errorf("%v: the server itself makes % x of it, not %q", c.ops, want.body(t), c.want)
				}
			}
		}
	}
}
