package tarantool

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// Requests that the client sends behind a request that the server refuses for its schema version see the effect of that
// request, in every queue, though all were written at once.
func TestNothingOvertakes(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	direct := b.direct()
	c := b.client()
	b.put(c, 1, document(0))
	one := []any{1}
	for round := range 20 {
		for _, stream := range []uint64{0, 7} {
			direct.must(wire.Eval, 0x27, fmt.Sprintf("local s = box.space.plain if s.index.other then s.index.other:drop() else s:create_index('other', {parts = {{%d, 'unsigned'}}}) end", 2+round%3), 0x21, []any{})
			first, second := document(2*round), document(2*round+1)
			get := keyed{0x10, docs, 0x11, 0, 0x12, 1, 0x13, 0, 0x14, 0, 0x20, one}
			var all []byte
			for _, r := range []struct {
				typ  wire.Type
				body keyed
			}{
				{wire.Replace, keyed{0x10, docs, 0x21, tuple(1, first)}},
				{wire.Select, get},
				{wire.Update, keyed{0x10, docs, 0x11, 0, 0x20, one, 0x21, []any{[]any{"=", "tag", "updated"}}}},
				{wire.Delete, keyed{0x10, docs, 0x11, 0, 0x20, one}},
				{wire.Select, get},
				{wire.Insert, keyed{0x10, docs, 0x21, tuple(1, second)}},
				{wire.Eval, keyed{0x27, "return box.space.docs:get(1)", 0x21, []any{}}},
				{wire.Call, keyed{0x22, "get", 0x21, one}},
			} {
				c.sync++
				all = append(all, encode(t, r.typ, c.sync, keyed{0x0a, stream}, r.body)...)
			}
			from := c.sync - 8
			c.write(all)
			docOf := map[uint64]string{}
			for range 8 {
				a := c.read()
				if a.code != wire.OK {
					t.Fatalf("%#x %s", a.code, a.text)
				}
				docOf[a.sync-from] = firstDoc(a.data)
			}
			for n, want := range map[uint64]string{1: first, 2: first, 3: first, 4: first, 5: "", 6: second, 7: second, 8: second} {
				if docOf[n] != want {
					t.Fatalf("round %d, stream %d: request %d answers %.60q, want %.60q", round, stream, n, docOf[n], want)
				}
			}
		}
	}
	if n := b.stats.Snapshot().Errors["schema_changed"]; n < 40 {
		t.Errorf("%d requests met another schema", n)
	}
}

// firstDoc returns the field doc of the first tuple in a reply.
func firstDoc(v any) string {
	list, ok := v.([]any)
	if !ok {
		return ""
	}
	if len(list) > 2 {
		if doc, ok := list[2].(string); ok {
			return doc
		}
	}
	for _, v := range list {
		if doc := firstDoc(v); doc != "" {
			return doc
		}
	}
	return ""
}

// versioned imitates a server that handles the requests of a stream in their order. It refuses stamps other than its
// version, and records the requests that it carries out.
type versioned struct {
	mu      sync.Mutex
	version uint64
	done    map[uint64][]wire.Type // by stream
}

func (v *versioned) serve(t *testing.T, c net.Conn) {
	in := reader{Inbound: gateway.Inbound{Conn: c}}
	for {
		f, err := in.next()
		if err != nil {
			return
		}
		var h wire.Header
		if err := h.Parse(f.body()); err != nil {
			return
		}
		v.mu.Lock()
		version, refused := v.version, h.Schema != 0 && h.Schema != v.version
		if !refused {
			v.done[h.Stream] = append(v.done[h.Stream], h.Type)
		}
		v.mu.Unlock()
		reply := encode(t, wire.OK, h.Sync, keyed{5, version}, keyed{0x30, []any{}})
		if refused {
			reply = wire.AppendError(nil, h.Sync, version, wire.ErrSchemaVersion, "Wrong schema version")
		}
		if _, err := c.Write(reply); err != nil {
			return
		}
	}
}

// BEGIN stays before the requests of a transaction, and COMMIT behind them, however often the schema changes.
func TestCommitStaysBehind(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	read := schemaBy(t, b.conn())
	first, err := read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v := &versioned{version: first.Version, done: map[uint64][]wire.Type{}}
	addr, _, _ := fake(t, func(c net.Conn) { v.serve(t, c) })
	c := dial(t, lone(t, addr, func(cfg *Config) {
		cfg.Policy, cfg.Engine = b.g.catalog.rules.Load(), b.g.cfg.Engine
		cfg.Schema = func(context.Context) (*schema.Schema, error) {
			s := *first
			v.mu.Lock()
			defer v.mu.Unlock()
			s.Version = v.version
			return &s, nil
		}
	}))
	transaction := []wire.Type{wire.Begin, wire.Insert, wire.Replace, wire.Delete, wire.Select, wire.Update, wire.Call, wire.Commit}
	var want []wire.Type
	for round := range 10 {
		v.mu.Lock()
		v.version++
		v.mu.Unlock()
		var all []byte
		for i := range transaction {
			for stream := range uint64(3) {
				c.sync++
				body := keyed{0x10, docs, 0x21, tuple(1, document(round)), 0x11, 0, 0x20, []any{1}}
				if transaction[i] == wire.Update {
					body = keyed{0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"=", 2, document(round)}}}
				}
				all = append(all, encode(t, transaction[i], c.sync, keyed{0x0a, stream + 1}, body)...)
			}
		}
		c.write(all)
		for range 3 * len(transaction) {
			if a := c.read(); a.code != wire.OK {
				t.Fatalf("%#x %s", a.code, a.text)
			}
		}
		want = append(want, transaction...)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for stream := range uint64(3) {
		if got := v.done[stream+1]; !slices.Equal(got, want) {
			t.Errorf("stream %d: %v\nwant %v", stream+1, got, want)
		}
	}
}

// together sends requests in one write.
func (r *raw) together(requests ...keyed) {
	r.t.Helper()
	var all []byte
	for _, body := range requests {
		r.sync++
		all = append(all, encode(r.t, body[0].(wire.Type), r.sync, nil, body[1:])...)
	}
	r.write(all)
}

// A long call carries the stamp of the write before it. Nevertheless it delays no other requests, as it delays none at
// the server: neither requests that are refused for their schema version nor splices.
func TestSlowCallHoldsUpNobody(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	b.install()
	slow := keyed{wire.Call, 0x22, "slow", 0x21, []any{3600}}
	write := keyed{wire.Replace, 0x10, docs, 0x21, tuple(2, document(2))}
	cut := keyed{wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{2}, 0x21, []any{[]any{":", 2, 0, 1, "X"}}}
	for name, next := range map[string][]keyed{"write": {write, write}, "splice": {cut}, "both": {write, cut, slow, write, cut, write}} {
		for _, changed := range []bool{false, true} {
			c := b.client()
			c.together(write, slow)
			if a := c.read(); a.code != wire.OK || a.sync != 1 {
				t.Fatalf("%s: %#x %s to %d", name, a.code, a.text, a.sync)
			}
			if changed {
				b.direct().must(wire.Eval, 0x27, `local s = box.space.plain if s.index.other then s.index.other:drop() else s:create_index('other', {parts = {{2, 'unsigned'}}}) end`, 0x21, []any{})
			}
			c.together(next...)
			for _, request := range next {
				if request[0] == wire.Call {
					continue
				}
				if a, err := c.tryRead(); err != nil || a.code != wire.OK {
					t.Fatalf("%s, schema changed: %v: %#x %s, %v", name, changed, a.code, a.text, err)
				}
			}
		}
	}
	if n := b.stats.Snapshot().Errors["schema_changed"]; n > 100 {
		t.Errorf("requests met another schema %d times", n)
	}
}

// Requests with the same sync are answered in their order.
func TestSameSync(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	for i := range 5 {
		b.put(c, i, document(i))
	}
	var all []byte
	for i := range 10 {
		all = append(all, encode(t, wire.Select, 0, nil, keyed{0x10, docs, 0x11, 0, 0x12, 1, 0x13, 0, 0x14, 0, 0x20, []any{i % 5}})...)
	}
	c.write(all)
	for i := range 10 {
		if a := c.read(); a.code != wire.OK || firstDoc(a.data) != document(i%5) {
			t.Fatalf("reply %d: %#x %s %.40q", i, a.code, a.text, firstDoc(a.data))
		}
	}
}
