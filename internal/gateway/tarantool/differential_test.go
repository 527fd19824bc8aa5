package tarantool

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/test/testenv"
)

var diffRequests = flag.Int("requests", 3000, "random requests of TestSameAsTheServer")

// diffScript creates the spaces on both servers, with the same numbers.
const diffScript = `
local function make(name, id, options, format)
    options.id, options.if_not_exists, options.format = id, true, format
    local s = box.schema.space.create(name, options)
    s:create_index('pk', {if_not_exists = true})
    return s
end
local format = {{'id', 'unsigned'}, {'tag', 'string'}, {'doc', 'string'}, {name = 'any', type = 'any', is_nullable = true},
    {name = 'scalar', type = 'scalar', is_nullable = true}, {name = 'n', type = 'number', is_nullable = true}}
for i, engine in pairs{'memtx', 'vinyl'} do
    local s = make('named' .. i, 800 + i, {engine = engine}, format)
    s:create_index('tag', {parts = {{'tag', 'string'}, {'id', 'unsigned'}}, if_not_exists = true})
    make('free' .. i, 810 + i, {engine = engine})
    make('exact' .. i, 820 + i, {engine = engine, field_count = 4})
end
function both(...) return {...}, box.space[801]:get(1), {map = {box.space[811]:select({}, {limit = 3})}} end
`

// generator makes random requests, including invalid ones.
type generator struct {
	r *rand.Rand
	t *testing.T
}

func pick[T any](g *generator, list ...T) T { return list[g.r.IntN(len(list))] }

func (g *generator) text() string {
	switch g.r.IntN(6) {
	case 0:
		return ""
	case 1:
		return pick(g, "a", "tag", "x1")
	case 2:
		b := make([]byte, g.r.IntN(200))
		for i := range b {
			b[i] = byte(g.r.Uint32())
		}
		return string(b)
	case 3:
		return document(g.r.IntN(10))
	}
	return string(bytes.Repeat([]byte(pick(g, "ab", "abc ", "x")), g.r.IntN(400)))
}

func (g *generator) value() any {
	switch g.r.IntN(9) {
	case 0:
		return g.r.IntN(100)
	case 1:
		return nil
	case 2:
		return []byte(g.text())
	case 3:
		return []any{g.text(), 1, map[string]any{"k": g.text()}}
	case 4:
		return map[string]any{"a": g.text()}
	}
	return g.text()
}

func (g *generator) id() int { return g.r.IntN(20) }

func (g *generator) tuple(space int) []any {
	if space < 810 {
		t := []any{g.id(), pick(g, "a", "b", "c"), g.text()}
		if g.r.IntN(10) == 0 {
			t[1+g.r.IntN(2)] = g.value() // mostly of a wrong type
		}
		if g.r.IntN(2) == 0 {
			t = append(t, g.value(), pick[any](g, g.text(), 5, nil, []byte("x")), pick[any](g, nil, 1.5, 7))
		}
		return t
	}
	t := []any{g.id()}
	n := 3
	if space < 820 {
		n = g.r.IntN(6)
	}
	for range n {
		t = append(t, g.value())
	}
	return t
}

// field returns the number, name or path of a field, which may not exist.
func (g *generator) field(space int) any {
	if space < 810 && g.r.IntN(2) == 0 {
		return pick[any](g, "tag", "doc", "any", "scalar", "n", "nobody", "[3]", `["doc"]`, "")
	}
	return pick[any](g, 1, 2, 3, 4, 5, 9, -1, -2, 100)
}

// within returns a path into a field. An UPDATE with it has no other operation: Tarantool 2.6.0 crashes when an
// UPDATE sets a field and a part of it.
func (g *generator) within() any { return pick[any](g, "any.a", "any[1]", "[4].a", "doc.a", "any.a.b") }

// splice returns a splice at a random place, often at an edge of the value.
func (g *generator) splice(space int) []any {
	if g.r.IntN(15) == 0 {
		return []any{":", g.field(space), g.value(), g.value(), g.value()}
	}
	number := func() any {
		return pick[any](g, 0, 1, 2, 5, 100, 399, 400, 401, 1<<31-1, 1<<31, -1, -2, -5, -100, -400, -401, -402, -1<<31+1)
	}
	op := []any{":", g.field(space), number(), number(), g.text()}
	return op[:len(op)-g.r.IntN(20)/19]
}

func (g *generator) operations(space int) []any {
	if space < 810 && g.r.IntN(5) == 0 {
		return []any{[]any{"=", g.within(), g.value()}}
	}
	var ops []any
	if g.r.IntN(6) == 0 { // several operations on one field, which newer servers accept
		field := g.field(space)
		for range 2 + g.r.IntN(4) {
			op := g.splice(space)
			if op[1] = field; g.r.IntN(5) == 0 {
				op = []any{"=", field, g.value()}
			}
			ops = append(ops, op)
		}
		return ops
	}
	for range 1 + g.r.IntN(3) {
		switch g.r.IntN(8) {
		case 0:
			ops = append(ops, []any{pick(g, "+", "-", "&", "|", "^"), g.field(space), g.r.IntN(9)})
		case 1:
			if g.r.IntN(2) == 0 {
				ops = append(ops, []any{"#", g.field(space), pick[any](g, 1, 1, 2, 0, -1, "x")})
			} else {
				ops = append(ops, []any{"!", g.field(space), g.value()})
			}
		case 2, 3:
			ops = append(ops, g.splice(space))
		case 4:
			ops = append(ops, []any{pick(g, "?", "==", "")})
		default:
			ops = append(ops, []any{"=", g.field(space), g.value()})
		}
	}
	return ops
}

func (g *generator) request() (wire.Type, keyed) {
	space := pick(g, 801, 802, 811, 812, 821, 822)
	key := keyed{0x10, space, 0x11, 0, 0x20, []any{g.id()}}
	switch g.r.IntN(12) {
	case 0, 1:
		return wire.Insert, keyed{0x10, space, 0x21, g.tuple(space)}
	case 2, 3:
		return wire.Replace, keyed{0x21, g.tuple(space), 0x10, space}
	case 4, 5:
		return wire.Update, append(key, 0x21, g.operations(space), 0x15, g.r.IntN(2))
	case 6:
		return wire.Upsert, keyed{0x28, g.operations(space), 0x10, space, 0x21, g.tuple(space)}
	case 7:
		return wire.Delete, key
	case 8:
		return wire.Call, keyed{0x22, pick(g, "both", "box.info.version", "nobody"), 0x21, []any{g.value(), g.text()}}
	case 9:
		return wire.Eval, keyed{0x27, "return box.space[...]:pairs():take(5):totable()", 0x21, []any{space}}
	case 10:
		return wire.Type(pick(g, 64, 12, 99, 2)), keyed{0x10, pick(g, space, 9999), 0x21, pick[any](g, []any{}, []any{"x"}, 5)}
	}
	index, k := 0, []any{}
	if space < 810 && g.r.IntN(2) == 0 {
		index, k = 1, []any{pick(g, "a", "b")}
	}
	return wire.Select, keyed{0x10, space, 0x11, index, 0x12, g.r.IntN(30), 0x13, g.r.IntN(3), 0x14, pick(g, 0, 2, 4, 5), 0x20, k}
}

// Random requests sent to a server, and to another server through a gateway that compresses all that it may, get the
// same replies, byte for byte.
func TestSameAsTheServer(t *testing.T) {
	for _, p := range testenv.TarantoolPrograms(t) {
		t.Run(p.Name, func(t *testing.T) { sameAsTheServer(t, p.Path) })
	}
}

// same reports whether two replies are the same. It ignores two parts of newer servers' errors: stored tuples in the
// text, and the position in the server's code, which is outside of the text.
func (a *answer) same(t *testing.T, other *answer, newer bool) bool {
	if newer && a.code != 0 {
		text, _, _ := strings.Cut(a.text, " with old tuple ")
		want, _, _ := strings.Cut(other.text, " with old tuple ")
		return a.code == other.code && text == want
	}
	return a.code == other.code && a.text == other.text && bytes.Equal(a.body(t), other.body(t))
}

func sameAsTheServer(t *testing.T, program string) {
	newer := program == os.Getenv(testenv.NewerTarantool)
	b := newBedOf(t, program, policy.Options{Force: true}, nil)
	other := newBedOf(t, program, policy.Options{}, nil)
	for _, c := range []*raw{b.direct(), other.direct()} {
		c.must(wire.Eval, 0x27, diffScript, 0x21, []any{})
	}
	b.install()
	through, direct := b.client(), other.direct()
	g := &generator{rand.New(rand.NewPCG(testenv.Seed(t), 2)), t}
	failures, refused := 0, 0
	for i := range *diffRequests {
		typ, body := g.request()
		got := through.do(typ, body...)
		if strings.HasPrefix(got.text, "cinch does not support an UPSERT that") {
			refused++
			continue
		}
		want := direct.do(typ, body...)
		if !got.same(t, &want, newer) {
			t.Errorf("request %d, %d %.600s:\n%#x %s % .100x\nwant\n%#x %s % .100x", i, typ, fmt.Sprintf("%q", body), got.code, got.text, got.body(t), want.code, want.text, want.body(t))
			if failures++; failures > 5 {
				t.FailNow()
			}
		}
	}
	for _, space := range []int{801, 802, 811, 812, 821, 822} {
		all := keyed{0x10, space, 0x11, 0, 0x12, 1000, 0x13, 0, 0x14, 2, 0x20, []any{}}
		if got, want := through.do(wire.Select, all...), direct.do(wire.Select, all...); !bytes.Equal(got.body(t), want.body(t)) {
			t.Errorf("space %d differs", space)
		}
	}
	snap := b.stats.Snapshot()
	if snap.Total.Sealed < uint64(*diffRequests/4) || snap.Total.Opened < uint64(*diffRequests) {
		t.Errorf("%d sealed, %d opened", snap.Total.Sealed, snap.Total.Opened)
	}
	t.Logf("%d requests, %d values sealed, %d opened, refused: %v", *diffRequests, snap.Total.Sealed, snap.Total.Opened, snap.Guarded)
	if refused > *diffRequests/50 {
		t.Errorf("%d upserts were refused", refused)
	}
}

// body returns a reply without its header, which names the version of the schema.
func (a *answer) body(t *testing.T) []byte {
	t.Helper()
	var h wire.Header
	if err := h.Parse(a.frame[5:]); err != nil {
		t.Fatal(err)
	}
	return a.frame[5+h.Map.End():]
}
