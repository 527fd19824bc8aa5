package tarantool

import (
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/test/testenv"
)

// splices returns operations on the field doc, with the field's value afterwards if it was doc.
func splices(doc string) map[string]struct {
	ops  []any
	base int
	want string
} {
	type list = []any
	n := len(doc)
	return map[string]struct {
		ops  []any
		base int
		want string
	}{
		"at the start":            {list{list{":", 2, 0, 1, "X"}}, 0, "X" + doc[1:]},
		"as Lua counts":           {list{list{":", 3, 1, 1, "X"}}, 1, "X" + doc[1:]},
		"by name":                 {list{list{":", "doc", 5, 3, "longer"}}, 0, doc[:5] + "longer" + doc[8:]},
		"by path":                 {list{list{":", "[3]", 5, 0, "in"}}, 0, doc[:5] + "in" + doc[5:]},
		"from the end":            {list{list{":", -3, 0, 1, ""}}, 0, doc[1:]},
		"after the last":          {list{list{":", "doc", -1, 0, "end"}}, 0, doc + "end"},
		"far after it":            {list{list{":", "doc", n + 99, 5, "end"}}, 0, doc + "end"},
		"leaves some":             {list{list{":", "doc", 4, -6, "-"}}, 0, doc[:4] + "-" + doc[n-6:]},
		"all":                     {list{list{":", "doc", 0, n, ""}}, 0, ""},
		"begins like an envelope": {list{list{":", "doc", 0, 0, envelope.Magic}}, 0, envelope.Magic + doc},
		"and other things":        {list{list{"=", "tag", "new"}, list{":", "doc", 0, 1, "Y"}, list{"=", "extra", document(7)}}, 0, "Y" + doc[1:]},
		"and then assigned":       {list{list{":", "doc", 0, 1, "Y"}, list{"=", "doc", "other"}}, 0, "other"},
		"after an insertion":      {list{list{"!", -1, list{}}, list{":", -4, 0, 1, "Z"}, list{"#", -1, 1}}, 0, "Z" + doc[1:]},
	}
}

func TestSplices(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	b.install()
	c := b.client()
	doc := document(1)
	for name, u := range splices(doc) {
		t.Run(name, func(t *testing.T) {
			b.t, c.t = t, t
			b.put(c, 1, doc)
			got := c.must(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x15, u.base, 0x21, u.ops).([]any)[0].([]any)
			if got[2] != u.want {
				t.Errorf("it echoes %.60q", got[2])
			}
			b.check(c, 1, u.want, len(u.want) > 64)
			b.put(c, 1, doc)
			if got := c.must(wire.Upsert, 0x10, docs, 0x15, u.base, 0x21, tuple(1, "never"), 0x28, u.ops).([]any); len(got) != 0 {
				t.Errorf("upsert echoes %.60q", got)
			}
			b.check(c, 1, u.want, len(u.want) > 64)
		})
	}
	b.t, c.t = t, t
	if n := b.stats.Snapshot().Guarded; len(n) == 0 {
		t.Error("no splice was counted")
	}
	// An UPSERT of a missing tuple inserts it, and an UPDATE does nothing.
	c.must(wire.Upsert, 0x10, docs, 0x21, tuple(9, doc), 0x28, []any{[]any{":", "doc", 0, 1, "X"}})
	b.check(c, 9, doc, true)
	if got := c.must(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{99}, 0x21, []any{[]any{":", "doc", 0, 1, "X"}}).([]any); len(got) != 0 {
		t.Errorf("an update of nothing echoes %v", got)
	}
}

// After its index was dropped, a field may hold envelopes of another gateway. A splice does not cut them, although the
// gateway has not read the new schema yet.
func TestSpliceFence(t *testing.T) {
	b := newBed(t, policy.Options{Rules: []policy.Rule{{Name: "all", Key: "docs", Types: policy.Tuple, Setting: codec.Setting{Codec: codec.LZ4}}}}, nil)
	b.install()
	c, direct := b.client(), b.direct()
	b.put(c, 1, document(1))
	direct.must(wire.Eval, 0x27, "box.space.docs.index.tag:drop()", 0x21, []any{})
	sealed := b.g.codec.Sealer.Seal(nil, []byte(document(2)), codec.Setting{Codec: codec.LZ4}, nil)
	direct.must(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"=", 1, string(sealed)}}) // as another gateway does
	c.must(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{":", "tag", 0, 1, "X"}})
	if got := c.selectOne(docs, 1)[1]; got != "X"+document(2)[1:] {
		t.Errorf("got %.60q", got)
	}
}

// A gateway without rules does not cut values that another gateway has compressed, however the field is named and
// however many splices there are. Splices of uncompressed values have the same results as on the server itself.
func TestSpliceWithoutTheRulesOfOthers(t *testing.T) {
	for _, p := range testenv.TarantoolPrograms(t) {
		t.Run(p.Name, func(t *testing.T) {
			b := newBedOf(t, p.Path, policy.Options{Rules: rules()}, nil)
			b.install()
			g, addr := loneGateway(t, b.server.Addr, func(c *Config) { c.Schema = schemaBy(t, b.conn()) })
			c, other := b.client(), dial(t, addr)
			doc := document(1)
			for _, stored := range []string{"compressed", "plain"} {
				for name, u := range splices(doc) {
					if strings.Contains(name, "envelope") {
						continue // refused: in a field without rules the value can't be wrapped
					}
					writer := c
					if stored == "plain" {
						writer = b.direct()
					}
					b.put(writer, 1, doc)
					if got := other.must(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x15, u.base, 0x21, u.ops).([]any)[0].([]any); got[2] != u.want {
						t.Errorf("%s, %s: it echoes %.60q", stored, name, got[2])
					}
					b.check(c, 1, u.want, false)
					b.put(writer, 1, doc)
					other.must(wire.Upsert, 0x10, docs, 0x15, u.base, 0x21, tuple(1, "never"), 0x28, u.ops)
					b.check(c, 1, u.want, false)
				}
			}
			if n := g.cfg.Stats.Snapshot().Guarded; len(n) == 0 {
				t.Error("no splice was counted")
			}
		})
	}
}

// A value that was compressed before its field got an index is decompressed, not cut.
func TestSpliceUnderAnIndex(t *testing.T) {
	for name, rules := range map[string][]policy.Rule{
		"rules for functions": rules(), // with these any field may hold an envelope
		"rule for the field":  rules()[:1],
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, policy.Options{Rules: rules}, nil)
			b.install()
			c := b.client()
			b.put(c, 1, document(1))
			b.direct().must(wire.Eval, 0x27, "box.space.docs:create_index('doc', {parts = {{'doc', 'string'}}, unique = false})", 0x21, []any{})
			c.must(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{":", "doc", 0, 1, "X"}})
			b.check(c, 1, "X"+document(1)[1:], false)
		})
	}
}

// A splice may find the tuple by a unique index other than the primary one.
func TestSpliceBySecondaryIndex(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	b.install()
	b.direct().must(wire.Eval, 0x27, "box.space.docs:create_index('unique', {parts = {{'tag', 'string'}, {'id', 'unsigned'}}})", 0x21, []any{})
	c := b.client()
	b.put(c, 1, document(1))
	c.must(wire.Update, 0x10, docs, 0x11, 2, 0x20, []any{"tag", 1}, 0x21, []any{[]any{":", "doc", 0, 1, "X"}})
	b.check(c, 1, "X"+document(1)[1:], true)
}

// Values that move into an indexed field are decompressed, and values that move out of one stay intact.
func TestShifts(t *testing.T) {
	b := newBed(t, policy.Options{Rules: []policy.Rule{{Key: "wide", Field: "[24]", Types: policy.Tuple, Setting: codec.Setting{Codec: codec.LZ4}}}}, nil)
	b.install()
	b.direct().must(wire.Eval, 0x27, `local s = box.schema.space.create('wide', {id = 700}) s:create_index('pk')
		s:create_index('third', {parts = {{3, 'string'}}})`, 0x21, []any{})
	c := b.client()
	two, four := document(2), document(4)
	for _, u := range []struct {
		op   []any
		want []any
	}{
		{[]any{"!", 1, "x"}, []any{int64(1), "x", two, "a", four}},
		{[]any{"#", 1, 1}, []any{int64(1), "a", four}},
		{[]any{"#", 2, 1}, []any{int64(1), two, four}},
		{[]any{"#", -2, 1}, []any{int64(1), two, four}},
	} {
		c.must(wire.Replace, 0x10, 700, 0x21, []any{1, two, "a", four})
		if got := c.must(wire.Update, 0x10, 700, 0x11, 0, 0x20, []any{1}, 0x21, []any{u.op}).([]any)[0]; !reflect.DeepEqual(got, u.want) {
			t.Errorf("%v: %.80q", u.op, got)
		}
		if stored := b.direct().selectOne(700, 1); stored[2] != u.want[2] {
			t.Errorf("%v: the index holds %.80q", u.op, stored[2])
		}
	}
}

// A splice is carried out with the rights of the client's user, not of the gateway's user.
func TestSpliceWithoutRights(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	b.install()
	b.direct().must(wire.Eval, 0x27, `box.session.su('admin', function()
		for user, rights in pairs{reader = 'read', writer = 'write', both = 'read,write'} do
			box.schema.user.create(user, {password = 'secret'})
			box.schema.user.grant(user, rights, 'space', 'docs')
		end end)`, 0x21, []any{})
	b.put(b.client(), 1, document(1))
	for user, want := range map[string]string{"reader": "Write access to space 'docs' is denied for user 'reader'", "writer": "Read access to space 'docs' is denied for user 'writer'", "both": ""} {
		c, err := connectAs(t, b.addr, user, "secret")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Do(updateDoc(1, "X")).Get()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", user, err)
		}
		_ = c.Close()
	}
	b.check(b.client(), 1, "X"+document(1)[1:], true)
}

// Several writers splice one field while a packer and an unpacker run. Each splice is applied exactly once.
func TestNoSpliceIsLost(t *testing.T) {
	for _, engine := range []string{"memtx", "vinyl"} {
		t.Run(engine, func(t *testing.T) {
			b := newBed(t, policy.Options{Rules: rules()}, nil)
			b.install()
			b.direct().must(wire.Eval, 0x27, `local name = ... local s = box.space.docs s:drop()
				s = box.schema.space.create('docs', {id = 600, engine = name, format = {{'id', 'unsigned'}, {'tag', 'string'}, {'doc', 'string'}}})
				s:create_index('pk')`, 0x21, []any{engine})
			doc := document(1)
			b.client().must(wire.Replace, 0x10, docs, 0x21, []any{1, "tag", doc})
			stop, packed := b.packAndUnpack()
			var writers sync.WaitGroup
			const each, count = 60, 6
			for w := range count {
				writers.Go(func() {
					c := b.client()
					for i := 0; i < each; {
						op, typ, key := []any{":", "doc", -1, 0, string(rune('A'+w)) + ";"}, wire.Update, 0x21
						body := []any{0x10, docs, 0x11, 0, 0x20, []any{1}}
						if i%3 == 0 {
							typ, key, body = wire.Upsert, 0x28, []any{0x10, docs, 0x21, []any{1, "tag", "never"}}
						}
						switch a := c.do(typ, append(body, key, []any{op})...); a.code {
						case wire.OK:
							i++
						case wire.ErrorFlag | wire.ErrConflict: // the server has this error, too; the client has to repeat the request
						default:
							t.Errorf("%#x %s", a.code, a.text)
							return
						}
					}
				})
			}
			writers.Wait()
			stop()
			got := b.client().selectOne(docs, 1)[2].(string)
			added, ok := strings.CutPrefix(got, doc)
			if !ok || len(added) != 2*each*count {
				t.Errorf("%d bytes were added, want %d", len(added), 2*each*count)
			}
			for w := range count {
				if n := strings.Count(added, string(rune('A'+w))+";"); n != each {
					t.Errorf("writer %d: %d of %d splices are there", w, n, each)
				}
			}
			if packed.Load() == 0 {
				t.Error("the packer replaced nothing")
			}
			t.Logf("%d values packed and unpacked meanwhile", packed.Load())
		})
	}
}

// A short request with many splices of one long value does not take memory for a copy of the value for each splice.
func TestManySplicesOfOneField(t *testing.T) {
	for _, p := range testenv.TarantoolPrograms(t) {
		t.Run(p.Name, func(t *testing.T) { manySplices(t, p.Path) })
	}
}

func manySplices(t *testing.T, program string) {
	b := newBedOf(t, program, policy.Options{Rules: rules()}, nil)
	b.install()
	c := b.client()
	noise := make([]byte, 200<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	b.put(c, 1, string(noise))
	many := func(n int) answer {
		return c.do(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, slices.Repeat([]any{[]any{":", 2, 0, 1, "Z"}}, n))
	}
	many(1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := many(1000)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<20 {
		t.Errorf("%d MiB", taken>>20)
	}
	b.put(b.direct(), 3, "text")
	direct := b.direct().do(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{3}, 0x21, slices.Repeat([]any{[]any{":", 2, 0, 1, "Z"}}, 2))
	if a.code != direct.code || a.text != direct.text {
		t.Errorf("%#x %s, not %#x %s", a.code, a.text, direct.code, direct.text)
	}
}

// In the server a field number in a path may overflow, so many numbers name the same field. The gateway resolves them
// in the same way.
func TestSpliceByOverflow(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	b.install()
	c, direct := b.client(), b.direct()
	for _, path := range []string{"[3]", "[003]", "[4294967299]", "[18446744073709551619]", "[4294967294]", "[4294967295]", "[0]", "[2147483648]"} {
		cut := []any{[]any{":", path, 0, 1, "X"}}
		b.put(direct, 1, document(1))
		want := direct.do(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, cut)
		b.put(c, 2, document(1))
		got := c.do(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{2}, 0x21, cut)
		if got.code != want.code || got.text != want.text || c.selectOne(docs, 2)[2] != direct.selectOne(docs, 1)[2] {
			t.Errorf("%s: %#x %s, want %#x %s", path, got.code, got.text, want.code, want.text)
		}
	}
}

// A space that is not in the schema may be newer, and hold envelopes of another gateway. So its splices are stamped.
func TestSplicesOfUnknownSpacesAreFenced(t *testing.T) {
	p := newParts(t)
	for op, stamp := range map[string]uint64{":": 9, "!": 9, "#": 9, "=": 0} {
		for _, r := range []*request{
			p.request(wire.Update, 0x10, 999, 0x20, []any{1}, 0x21, []any{[]any{op, 1, 1, 1, "x"}}),
			p.request(wire.Upsert, 0x5e, "newer", 0x21, []any{1}, 0x28, []any{[]any{op, 1, 1, 1, "x"}}),
		} {
			if w, refused := p.g.rewrite(t.Context(), r, handlingOf(r.header.Type), 0); w.stamp != stamp || refused != nil {
				t.Errorf("%s: stamp %d, %v", op, w.stamp, refused)
			}
		}
	}
}
