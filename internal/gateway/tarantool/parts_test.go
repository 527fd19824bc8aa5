package tarantool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// partsOf holds a session whose pumps do not run. There is no server; the test makes up replies.
type partsOf struct {
	t *testing.T
	g *Gateway
	s *session

	server, client taker         // receive the frames that the session sends
	replies        *memory.Share // of a budget of 1 MiB
}

// taker is a connection that queues the frames that are written to it.
type taker struct {
	nowhere
	frames chan *request
}

func (k *taker) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n, size, err := wire.Prefix(rest)
		if err != nil || size+n > len(rest) {
			return 0, io.ErrShortWrite
		}
		f := &request{bytes: bytes.Clone(rest[size : size+n])}
		if err := parse(f); err != nil {
			return 0, err
		}
		k.frames <- f
		rest = rest[size+n:]
	}
	return len(p), nil
}

// next returns the next frame.
func (k *taker) next(t *testing.T) *request {
	t.Helper()
	select {
	case f := <-k.frames:
		return f
	case <-time.After(time.Minute):
		t.Fatal("no frame came")
	}
	return nil
}

// expect takes a frame of that type, sync and stamp.
func (k *taker) expect(t *testing.T, typ wire.Type, sync, stamp uint64) *request {
	t.Helper()
	f := k.next(t)
	if h := f.header; h.Type != typ || h.Sync != sync || h.Schema != stamp {
		t.Errorf("%d with sync %d and stamp %d; want %d, %d, %d", h.Type, h.Sync, h.Schema, typ, sync, stamp)
	}
	return f
}

// nothing checks that no frame was written.
func (k *taker) nothing(t *testing.T) {
	t.Helper()
	if n := len(k.frames); n > 0 {
		t.Errorf("%d frames too many", n)
	}
}

func newParts(t *testing.T) *partsOf {
	p := &partsOf{t: t, g: offline(t)}
	t.Cleanup(p.g.cancel)
	p.g.cfg.Stats = gateway.NewStats("test", "tarantool")
	p.g.codec.Stats = p.g.cfg.Stats
	p.server.frames, p.client.frames = make(chan *request, 1000), make(chan *request, 1000)
	p.g.cfg.Stall = time.Millisecond
	room := memory.NewBudget(1 << 20)
	p.replies = room.Share("replies")
	p.g.requests, p.g.replies = room.Share("requests"), p.replies
	p.s = newSession(p.g, &p.client, &p.server)
	t.Cleanup(func() { _ = p.s.Close() })
	return p
}

// moved sets the version of the schema.
func (p *partsOf) moved(version uint64) {
	all := *p.g.catalog.spaces.Load()
	all.version = version
	p.g.catalog.spaces.Store(&all)
}

// parse parses header and body.
func parse(r *request) error {
	if err := r.header.Parse(r.bytes); err != nil {
		return err
	}
	return r.body.Parse(r.bytes, r.header.Map.End())
}

func (p *partsOf) request(typ wire.Type, body ...any) *request {
	p.t.Helper()
	r := &request{bytes: encode(p.t, typ, 7, nil, body)[5:]}
	if err := parse(r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// sends submits a client's request with a stamp.
func (p *partsOf) sends(sync, stamp uint64, typ wire.Type, body ...any) {
	p.t.Helper()
	f := frame{encode(p.t, typ, sync, keyed{0x05, stamp}, body), 5}
	e := exchange{kind: typ, stamp: stamp}
	original := frame{encode(p.t, typ, sync, nil, body), 5}
	if stamp != 0 && !p.s.outstanding.retryBuffer.keep(&e, &original, 0) {
		p.t.Fatal("no room")
	}
	if err := p.s.submit(sync, e, f.bytes); err != nil {
		p.t.Fatal(err)
	}
	if err := p.s.toServer.flush(); err != nil {
		p.t.Fatal(err)
	}
	p.server.expect(p.t, typ, sync, stamp)
}

// reply passes a reply of the server to the session.
func (p *partsOf) reply(typ wire.Type, sync uint64, body ...any) {
	p.t.Helper()
	if err := p.s.handleReply(&frame{encode(p.t, typ, sync, keyed{0x05, uint64(9)}, body), 5}); err != nil {
		p.t.Fatal(err)
	}
	if err := p.s.toClient.flush(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *partsOf) sealed(value string) string {
	return string(p.g.codec.Sealer.Seal(nil, []byte(value), codec.Setting{Codec: codec.LZ4}, nil))
}

func TestSubmit(t *testing.T) {
	p := newParts(t)
	if err := p.s.probe(); err != nil {
		t.Fatal(err)
	}
	probe := p.server.next(t)
	if e, ok := p.s.outstanding.take(probe.header.Sync); !ok || !e.probe || probe.header.Type != wire.Ping || probe.header.SyncAt.Len != 9 {
		t.Errorf("%+v %+v", e, probe.header)
	}
	if err := p.s.sendRefusal(3, nil, unsupported("sql", "it")); err != nil {
		t.Fatal(err)
	}
	p.client.expect(t, wire.ErrorFlag|wire.ErrUnsupported, 3, 0)
	p.s.outstanding.close()
	if err := p.s.submit(4, exchange{}, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	p.server.nothing(t)
}

func TestIdentity(t *testing.T) {
	keeper := &gateway.AuthProbe{Ask: func(context.Context) (bool, error) { return true, nil }}
	l := &identity{door: gateway.AuthGate{Probe: keeper}}
	l.recordLogin(1, "alice")
	l.recordLogin(2, "bob")
	if l.login() != loginPending {
		t.Error("a login without an answer is believed")
	}
	l.recordReply(wire.Auth, 2, wire.ErrorFlag)
	if !l.door.MustAuthenticate(t.Context()) {
		t.Error("a refused login counts as a login")
	}
	l.recordReply(wire.Select, 1, wire.OK)
	if l.login() != loginPending || !l.door.MustAuthenticate(t.Context()) {
		t.Error("the answer to another request is taken for the login's")
	}
	l.recordReply(wire.Auth, 1, wire.OK)
	if l.login() != "alice" || l.door.MustAuthenticate(t.Context()) {
		t.Errorf("login %q", l.login())
	}
	l.recordLogin(3, "guest")
	if l.recordReply(wire.Auth, 3, wire.OK); l.login() != "" {
		t.Errorf("guest is %q", l.login())
	}
	l = &identity{door: gateway.AuthGate{Probe: keeper}}
	if l.recordReply(wire.Insert, 1, wire.OK); l.door.MustAuthenticate(t.Context()) {
		t.Error("a guest that has written something counts as not logged in")
	}
}

// TestLanes checks the state of a queue while a request that can be refused is unanswered, and that the queue
// is removed afterwards.
func TestLanes(t *testing.T) {
	var a streamQueues
	list := []*exchange{{stamp: 5}, {stamp: 5}, {}}
	for _, e := range list {
		a.assignOrder(e)
		a.add(e)
	}
	if l := a.byStream[0]; l.refusable != 2 || l.nextStamp() != 5 || list[2].order != 3 || !l.beginProbe(0) || l.beginProbe(0) || l.beginProbe(1) {
		t.Errorf("%+v", l)
	}
	l := a.get(0)
	l.parked = append(l.parked, parked{2, *list[1]}, parked{1, *list[0]})
	if first := l.firstParked(); first.order != 1 {
		t.Errorf("first %d", first.order)
	}
	if got := l.takeParked(); len(got) != 2 || got[0].sync != 1 || l.parked != nil {
		t.Errorf("%+v", got)
	}
	if !a.remove(list[0]) || a.remove(list[2]) || a.byStream[0] == nil {
		t.Error("an answer without a stamp counts, or one too many is forgotten")
	}
	if a.remove(list[1]); a.byStream[0] != nil || a.anyRetrying() {
		t.Error("a lane of which there is nothing to know is kept")
	}
}

func TestExchangesWithOneSync(t *testing.T) {
	var x exchanges
	for n := range int16(3) {
		x.add(7, &exchange{tries: n})
	}
	x.update(func(e *exchange) bool { e.stream = 1; return true })
	if !x.any(func(e *exchange) bool { return e.tries == 2 && e.stream == 1 }) {
		t.Error("the last is not found")
	}
	for n := range int16(3) {
		if e, ok := x.take(7); !ok || e.tries != n {
			t.Errorf("%d in place of %d", e.tries, n)
		}
	}
	if _, ok := x.take(7); ok || x.count != 0 || len(x.duplicates) > 0 {
		t.Error("one is left")
	}
}

func TestOriginalsTakeBudget(t *testing.T) {
	budget := memory.NewBudget(1 << 20)
	o := retryBuffer{budget: budget.Share("test").Account(nil, nil)}
	f := frame{bytes: make([]byte, maxKept)}
	var free, held, none exchange
	if !o.keep(&free, &f, 0) || free.budgetBytes != 0 || !o.keep(&held, &f, 1) || held.budgetBytes != 2*maxKept {
		t.Errorf("%d bytes of the budget", held.budgetBytes)
	}
	if o.keep(&none, &f, 100) || none.original != nil {
		t.Error("more than the budget was kept")
	}
	o.drop(&held)
	o.drop(&held)
	o.drop(&free)
	if o.kept != 0 || budget.InUse() != 0 {
		t.Errorf("%d and %d bytes are left", o.kept, budget.InUse())
	}
}

// A request that must go alone waits for those that can be refused, and sends a probe.
func TestRequestsWaitForTheirLane(t *testing.T) {
	p := newParts(t)
	p.sends(1, 9, wire.Insert, 0x10, 600, 0x21, []any{1})
	if stamp, ok := p.s.outstanding.reserve(0, false, nil); stamp != 9 || !ok {
		t.Errorf("stamp %d", stamp)
	}
	if stamp, ok := p.s.outstanding.reserve(5, true, nil); stamp != 0 || !ok {
		t.Errorf("stamp %d in another lane", stamp)
	}
	in := make(chan uint64)
	go func() {
		stamp, _ := p.s.outstanding.reserve(0, true, nil)
		in <- stamp
	}()
	probe := p.server.next(t)
	p.reply(wire.OK, probe.header.Sync)
	if stamp := <-in; stamp != 0 {
		t.Errorf("stamp %d, alone", stamp)
	}
	if p.s.outstanding.retryBuffer.kept != 0 {
		t.Error("what can't be refused any more is kept")
	}
	p.reply(wire.OK, 1)
	p.client.expect(t, wire.OK, 1, 9)
}

var docBody = []any{0x10, 600, 0x21, []any{1, strings.Repeat("abc ", 30), 3}}

// Requests that the server refused for their stamp are sent again with the next stamp, in their order.
func TestRefusedRequestsAreSentAgain(t *testing.T) {
	p := newParts(t)
	p.sends(1, 9, wire.Insert, docBody...)
	p.sends(2, 9, wire.Select, 0x10, 600, 0x20, []any{1})
	p.moved(10)
	p.reply(wire.ErrorFlag|wire.ErrSchemaVersion, 1)
	p.reply(wire.ErrorFlag|wire.ErrSchemaVersion, 2)
	f := p.server.expect(t, wire.Insert, 1, 10)
	if !hasMagic(f.bytes) {
		t.Error("its value is not sealed")
	}
	p.server.expect(t, wire.Select, 2, 10)
	p.reply(wire.OK, 2)
	p.client.expect(t, wire.OK, 2, 9)
	p.reply(wire.OK, 1)
	p.client.expect(t, wire.OK, 1, 9)
	p.s.background.Wait()
	if p.s.outstanding.busy() || p.s.outstanding.retryBuffer.kept != 0 || p.s.Context().Err() != nil {
		t.Error("something is left")
	}
}

// If the schema changes all the time requests without envelopes or splices go unchanged, and the others are
// refused.
func TestRetriesEnd(t *testing.T) {
	p := newParts(t)
	if w, refused := p.s.rewriteAgain(p.request(wire.Insert, docBody...), maxTries, 0); w.bytes != nil || w.stamp != 0 || refused != nil {
		t.Errorf("%+v %v", w, refused)
	}
	for _, r := range []*request{
		p.request(wire.Insert, 0x10, 600, 0x21, []any{1, envelope.Magic}),
		p.request(wire.Update, 0x10, 600, 0x20, []any{1}, 0x21, []any{[]any{":", 2, 1, 1, "x"}}),
		p.request(wire.Call, 0x22, "box.space.docs:update", 0x21, []any{1, []any{[]any{":", 3, 1, 1, "x"}}}),
		p.request(wire.Eval, 0x27, "box.space.docs:update(1, {{':', 3, 1, 1, 'x'}})", 0x21, []any{}),
	} {
		if _, refused := p.s.rewriteAgain(r, maxTries, 0); refused == nil || refused.reason != "schema" {
			t.Errorf("%v", refused)
		}
	}
}

// Without memory for a copy of a request, to send it again, only a request that is right by any schema goes
// to the server.
func TestRequestsWithoutMemoryForARetry(t *testing.T) {
	splice := []any{":", 2, 0, 1, "X"} // for a field without a rule
	for name, test := range map[string]struct {
		typ    wire.Type
		body   keyed
		passes bool
	}{
		"a value that is to be sealed":     {wire.Insert, docBody, true},
		"a value that begins like sealed":  {wire.Insert, keyed{0x10, 600, 0x21, []any{1, envelope.Magic}}, false},
		"a splice":                         {wire.Update, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, []any{splice}}, false},
		"a splice by UPSERT":               {wire.Upsert, keyed{0x10, 600, 0x21, []any{1, "x"}, 0x28, []any{splice}}, false},
		"a splice beside a sealed value":   {wire.Update, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"=", 1, abc}, splice}}, false},
		"a splice in arguments":            {wire.Call, keyed{0x22, "box.space.docs:update", 0x21, []any{1, []any{[]any{":", 3, 1, 1, "x"}}}}, false},
		"a request that only reads":        {wire.Select, keyed{0x10, 600, 0x20, []any{1}}, true},
		"operations that need no envelope": {wire.Update, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"+", 0, 1}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParts(t)
			none := memory.NewBudget(1).Share("none").Account(nil, nil)
			defer none.Close()
			p.s.outstanding.retryBuffer.budget, p.s.outstanding.retryBuffer.kept = none, maxKept
			f := frame{encode(t, test.typ, 7, nil, test.body), 5}
			if err := p.s.handleRequest(&f); err != nil {
				t.Fatal(err)
			}
			if err := p.s.toServer.flush(); err != nil {
				t.Fatal(err)
			}
			if !test.passes {
				p.client.expect(t, wire.ErrorFlag|wire.ErrNoMemory, 7, 0)
				p.server.nothing(t)
			} else if got := p.server.expect(t, test.typ, 7, 0); !bytes.Equal(got.bytes, f.body()) {
				t.Errorf("it was changed: % x", got.bytes)
			}
		})
	}
}

// A request takes no more memory than is taken from the budget for it.
func TestRewritesFitTheirBudget(t *testing.T) {
	g := offline(t)
	defer g.cancel()
	rule := g.catalog.spaces.Load().byID[600].fields[1].rules[0]
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // codec states stay in their pools
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

// The memory for a request's edits is released with the request, whatever its outcome.
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

// Reading the stored tuple leaves the request's edits unchanged, however many values it wraps.
func TestLooksLeaveEditsAlone(t *testing.T) {
	p := newParts(t)
	p.g.catalog.spaces.Load().byID[600].touchesHidden = true
	p.g.cfg.ReadTuple = func(context.Context, uint32, uint32, []byte) ([]byte, error) { return nil, nil }
	operations := []any{[]any{":", 1, 0, 1, "X"}}
	for range 2 * maxIdleEdits {
		operations = append(operations, []any{"=", 2, envelope.Magic})
	}
	w, refused := p.g.rewrite(t.Context(), p.request(wire.Update, 0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, operations), updates, 0)
	if refused != nil {
		t.Fatal(refused)
	}
	if got, want := bytes.Count(w.bytes, magic), 4*maxIdleEdits; got != want || w.stamp != 9 {
		t.Errorf("the magic is there %d times, want %d", got, want)
	}
}

// splicing parks a splice of the field whose value is compressed.
func (p *partsOf) splicing() {
	p.t.Helper()
	f := frame{encode(p.t, wire.Update, 7, nil, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x15, 1, 0x21, []any{[]any{":", 2, 1, 1, "X"}}}), 5}
	e := exchange{kind: wire.Update}
	if !p.s.outstanding.retryBuffer.keep(&e, &f, 3) {
		p.t.Fatal("no room")
	}
	p.s.park(7, e)
}

// call reads the frame of a step, and returns its arguments.
func (p *partsOf) call() (sync uint64, args [][]byte) {
	p.t.Helper()
	f := p.server.next(p.t)
	spans, _, err := wire.Elements(nil, f.bytes, f.body.Tuple.At, 7)
	if err != nil || f.header.Type != wire.Call || f.header.Schema != 9 || len(spans) < 6 {
		p.t.Fatalf("%+v: %v", f.header, err)
	}
	for _, at := range spans {
		args = append(args, at.Of(f.bytes))
	}
	return f.header.Sync, args
}

func TestSpliceTakesSteps(t *testing.T) {
	p := newParts(t)
	p.s.serverVersion.Store(&schema.Version{Major: 2, Minor: 11})
	p.splicing()
	first, args := p.call()
	if args[3][0] != 0xc0 {
		t.Errorf("the first step expects % x", args[3])
	}
	p.reply(wire.OK, first, 0x30, []any{nil, []any{1, p.sealed(abc), 3}})
	second, args := p.call()
	if expected, _ := wire.Text(args[3]); !hasMagic(expected) {
		t.Error("the second step does not expect what is stored")
	}
	ops, _ := wire.Text(args[4])
	found := wire.NewStrings(ops, wire.Span{Len: len(ops)})
	values := ""
	for found.Next() {
		v, err := p.g.codec.Sealer.Open(nil, found.Content.Of(ops))
		if err != nil {
			t.Fatal(err)
		}
		values += string(v)
	}
	if values != ":X"+abc[1:] {
		t.Errorf("it pastes %q", values)
	}
	p.client.nothing(t)
	p.reply(wire.OK, second, 0x30, []any{[]any{1, p.sealed("X" + abc[1:]), 3}})
	if f := p.client.expect(t, wire.OK, 7, 9); !bytes.Contains(f.bytes, []byte("X"+abc[1:])) {
		t.Error("the reply is not opened")
	}
	p.s.background.Wait()
	if p.s.outstanding.retryBuffer.kept != 0 || p.s.outstanding.busy() {
		t.Error("something is left")
	}
}

// A splice of a field without rules is carried out by the first step, on a server where other gateways may have
// rules, unless the stored tuple holds an envelope. It then stores the value uncompressed.
func TestSpliceOfAFieldWithoutRules(t *testing.T) {
	cut := keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x15, 1, 0x21, []any{[]any{":", 3, 1, 1, "X"}}}
	begin := func(t *testing.T, typ wire.Type, body keyed) (p *partsOf, first uint64) {
		p = newParts(t)
		all := p.g.catalog.spaces.Load()
		all.initialized = true
		all.byID[600].Indexes = []schema.Index{{Unique: true, Parts: []schema.Part{{Field: 0}}}}
		p.s.serverVersion.Store(&schema.Version{Major: 2, Minor: 11})
		if err := p.s.handleRequest(&frame{encode(t, typ, 7, nil, body), 5}); err != nil {
			t.Fatal(err)
		}
		first, args := p.call()
		if len(args) != 7 || args[3][0] != 0xc0 || !bytes.HasSuffix(args[6], magic) {
			t.Fatalf("the first step: % x", args)
		}
		return p, first
	}
	t.Run("plain", func(t *testing.T) {
		p, first := begin(t, wire.Upsert, keyed{0x10, 600, 0x15, 1, 0x21, []any{1}, 0x28, cut[9]})
		p.reply(wire.OK, first, 0x30, []any{})
		p.client.expect(t, wire.OK, 7, 9)
		p.s.background.Wait()
		p.server.nothing(t)
	})
	t.Run("compressed", func(t *testing.T) {
		p, first := begin(t, wire.Update, cut)
		p.reply(wire.OK, first, 0x30, []any{nil, []any{1, "a", p.sealed(abc)}})
		second, args := p.call()
		if expected, _ := wire.Text(args[3]); len(args) != 6 || !hasMagic(expected) || hasMagic(args[4]) || !bytes.Contains(args[4], []byte("X"+abc[1:])) {
			t.Errorf("the second step: % x", args)
		}
		p.reply(wire.OK, second, 0x30, []any{[]any{1, "a", "X" + abc[1:]}})
		p.client.expect(t, wire.OK, 7, 9)
		p.s.background.Wait()
	})
	t.Run("in a space without rules", func(t *testing.T) {
		p := newParts(t)
		all := p.g.catalog.spaces.Load()
		for _, prepared := range []bool{false, true} {
			for _, calls := range []bool{false, true} {
				all.initialized, all.callRules = prepared, nil
				if calls {
					all.callRules = all.activeCallRules
				}
				all.byID[601] = &space{Space: &schema.Space{ID: 601, Name: "other"}}
				w, refused := p.g.rewrite(t.Context(), p.request(wire.Update, 0x10, 601, 0x20, []any{1}, 0x21, cut[9]), updates, 0)
				if refused != nil || (w.steps.space != nil) != (prepared || calls) || w.steps.onlyIfPlain != (prepared && !calls) {
					t.Errorf("prepared %t, rules for functions %t: %+v, %v", prepared, calls, w.steps, refused)
				}
				w, refused = p.g.rewrite(t.Context(), p.request(wire.Update, 0x10, 601, 0x20, []any{1}, 0x21, []any{[]any{":", "[3].a", 1, 1, "X"}, []any{"=", 2, abc}}), updates, 0)
				if refused != nil || w.steps.space != nil {
					t.Errorf("within a field: %+v, %v", w.steps, refused)
				}
			}
		}
	})
}

func TestSpliceWithoutTheFunction(t *testing.T) {
	p := newParts(t)
	p.splicing()
	sync, _ := p.call()
	p.reply(wire.ErrorFlag|wire.ErrNoProcedure, sync, 0x31, "Procedure '"+schema.UpdateFunction+"' is not defined")
	p.client.expect(t, wire.ErrorFlag|wire.ErrUnsupported, 7, 9)
	p.s.background.Wait()
}

func TestSpliceEndsWithTheReplies(t *testing.T) {
	p := newParts(t)
	p.splicing()
	p.call()
	p.s.PumpedSession.Run(func() {
		<-p.s.RepliesDone()
		p.s.background.Wait()
	}, func() {})
	if p.s.Context().Err() == nil {
		t.Error("the session continues")
	}
}

func TestReadStep(t *testing.T) {
	p := newParts(t)
	read := func(x *steppedRequest, typ wire.Type, body ...any) (stepAnswer, bool, *refusal) {
		r := &reply{bytes: encode(t, typ, 1<<63, nil, body)[5:]}
		if err := r.header.Parse(r.bytes); err != nil {
			t.Fatal(err)
		}
		if err := r.setSync(3); err != nil || r.header.Sync != 3 {
			t.Fatal(err)
		}
		a, again, refused, err := p.s.readStep(x, r)
		if err != nil {
			t.Fatal(err)
		}
		return a, again, refused
	}
	x := &steppedRequest{kind: wire.Update}
	if _, again, refused := read(x, wire.ErrorFlag|wire.ErrConflict); !again || refused != nil {
		t.Error("a conflict outside of a transaction of the client's is no reason to try again")
	}
	x.stream = 1
	if _, again, refused := read(x, wire.ErrorFlag|wire.ErrConflict); again || refused != nil {
		t.Error("one within is")
	}
	if _, again, refused := read(x, wire.OK, 0x30, []any{nil, []any{strings.Repeat("a", 1<<20)}}); again || refused != noMemory {
		t.Error("more is kept than the budget has room for")
	}
	if _, again, refused := read(x, wire.OK, 0x30, []any{nil, []any{envelope.Magic + "\x01"}}); again || refused == nil {
		t.Error("a broken envelope is expected")
	}
	r := &reply{bytes: encode(t, wire.OK, 1, nil, nil)[5:]}
	if err := r.header.Parse(r.bytes); err != nil {
		t.Fatal(err)
	}
	r.header.SyncAt.Len = 1
	if r.setSync(3) == nil {
		t.Error("there is no room for another sync")
	}
}

func TestOpenWithinBudget(t *testing.T) {
	p := newParts(t)
	s := p.s
	open := func(kind wire.Type, values ...any) ([]byte, *refusal) {
		r := &reply{bytes: encode(t, wire.OK, 1, nil, keyed{0x30, values})[5:]}
		if err := r.header.Parse(r.bytes); err != nil {
			t.Fatal(err)
		}
		return s.decodeReply(r, kind)
	}
	if out, refused := open(wire.Select, "plain"); out != nil || refused != nil {
		t.Error("what holds no envelope changes")
	}
	large := strings.Repeat("abc ", 64<<10)
	if out, refused := open(wire.Select, p.sealed(large)); refused != nil || !bytes.Contains(out, []byte(large)) || s.decodedBytes == 0 {
		t.Errorf("%v, %d bytes are held", refused, s.decodedBytes)
	}
	if s.releaseDecoded(); s.decodedBytes != 0 {
		t.Error("release holds on")
	}
	other := p.replies.Account(nil, nil) // its message uses up all that may be beyond the budget
	defer other.Close()
	if err := other.Acquire(t.Context(), 2<<20); err != nil {
		t.Fatal(err)
	}
	if _, refused := open(wire.Select, p.sealed(large)); refused == nil || refused.reason != "budget" {
		t.Errorf("while others have the budget: %v", refused)
	}
	if _, refused := open(wire.Select, envelope.Magic+"\x01"); refused == nil {
		t.Error("a broken envelope passes in a tuple")
	}
	if out, refused := open(wire.Call, envelope.Magic+"\x01"); out != nil || refused != nil {
		t.Error("what Lua made is taken for an envelope")
	}
}

// A part of a reply that can't be decompressed is left out, and the reply becomes the error.
func TestBrokenPart(t *testing.T) {
	p := newParts(t)
	p.sends(1, 0, wire.Select, 0x10, 600)
	p.reply(wire.Chunk, 1, 0x30, []any{envelope.Magic + "\x01"})
	p.client.nothing(t)
	p.reply(wire.OK, 1, 0x30, []any{1})
	p.client.expect(t, wire.ErrorFlag|wire.ErrSystem, 1, 9)
}

// The schema is read again when there is a reason, and the former one stays in use when that fails.
func TestCatalogReadsAgain(t *testing.T) {
	reads, version, fail := 0, uint64(3), error(nil)
	log := slog.New(slog.DiscardHandler)
	c := newCatalog(t.Context(), nil, func(context.Context) (*schema.Schema, error) {
		reads++
		return &schema.Schema{Version: version}, fail
	}, gateway.NewStats("test", "tarantool"), log)
	expect := func(why string, wantReads int, wantVersion uint64) {
		t.Helper()
		if all := c.current(t.Context()); all == nil || all.version != wantVersion || reads != wantReads {
			t.Errorf("%s: %d reads, want %d; %+v", why, reads, wantReads, all)
		}
	}
	expect("first", 1, 3)
	expect("again", 1, 3)
	version = 5
	c.recordVersion(4)
	expect("an answer names a newer version", 2, 5)
	c.recordVersion(3)
	c.markRefused(3)
	expect("an old answer", 2, 5)
	c.markRefused(5)
	expect("a request by that version is refused", 3, 5)
	c.markLost()
	expect("a connection was lost", 4, 5)
	fail = errors.New("down")
	c.markLost()
	expect("the server is down", 5, 5)
	fail, version = nil, 2
	c.recordGreeting()
	expect("it has greeted a client, and counts anew", 6, 2)
	if c := newCatalog(t.Context(), nil, nil, nil, log); c.readsSchema() || c.current(t.Context()) != nil || c.awaitSpaces(t.Context()) != nil {
		t.Error("something is known without a way to read it")
	}
}

// A version that a reply names while the schema is being read may be newer than the schema that was read.
func TestCatalogKeepsNewerVersions(t *testing.T) {
	var c *catalog
	reads := uint64(0)
	c = newCatalog(t.Context(), nil, func(context.Context) (*schema.Schema, error) {
		reads++
		c.recordVersion(6) // the version of the second schema; sessions note a version once
		return &schema.Schema{Version: 4 + reads}, nil
	}, gateway.NewStats("test", "tarantool"), slog.New(slog.DiscardHandler))
	for want := uint64(5); want <= 6; want++ {
		if all := c.current(t.Context()); all.version != want || c.isFresh(all) != (want == 6) {
			t.Errorf("version %d in place of %d, fresh: %v", all.version, want, c.isFresh(all))
		}
	}
	if c.current(t.Context()); reads != 2 {
		t.Errorf("%d reads", reads)
	}
}

// A space that the schema does not have may be newer, and hold envelopes of another gateway.
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

func TestStatements(t *testing.T) {
	p := newParts(t)
	p.moved(9)
	p.g.catalog.spaces.Load().guarded = []string{"docs"}
	for text, passes := range map[string][3]bool{ // with SQLRefuse, SQLProjection, SQLPass
		"SELECT * FROM other":               {true, true, true},
		"SELECT id FROM docs":               {false, true, true},
		"SELECT id FROM docs WHERE \"a\">1": {false, false, true},
		"UPDATE docs SET a = 1":             {false, false, true},
		// Numbers behind ORDER BY may be those of columns, unless they are behind LIMIT.
		"SELECT id, a FROM docs ORDER BY 2":                       {false, false, true},
		"SELECT id, a FROM docs ORDER BY credit_limit, 2":         {false, false, true},
		"SELECT id, a FROM docs ORDER BY \"limit\", 2":            {false, false, true},
		"SELECT id, a FROM docs ORDER BY \"no limit 1\", 2":       {false, false, true},
		"SELECT id, a FROM docs, order_limit ORDER BY 2":          {false, false, true},
		"SELECT id, a FROM docs, \"order limit\" ORDER\tBY 2":     {false, false, true},
		"SELECT id, a FROM docs ORDER BY id, b2 LIMIT 10":         {false, true, true},
		"SELECT id, a FROM docs WHERE order_id = 5 ORDER BY id":   {false, true, true},
		"SELECT id, a FROM docs ORDER BY id LIMIT\n2 OFFSET 10":   {false, true, true},
		"SELECT id, a FROM docs, \"order\" WHERE id = 5 LIMIT 10": {false, true, true},
	} {
		for mode, want := range passes {
			p.g.cfg.SQL = SQLMode(mode)
			if refused := p.g.checkSQL(t.Context(), p.request(wire.Execute, 0x40, text)); (refused == nil) != want {
				t.Errorf("%s in mode %d: %v", text, mode, refused)
			}
		}
	}
}

func TestBlindLooks(t *testing.T) {
	p := newParts(t)
	r := p.request(wire.Update, 0x10, 600, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{":", 2, 1, 1, "x"}})
	all := p.g.catalog.spaces.Load()
	sealed := append([]byte{0x91, 0xd9, byte(len(p.sealed(abc)))}, p.sealed(abc)...)
	for name, test := range map[string]struct {
		tuple []byte
		err   error
		want  bool
	}{
		"there is none":     {nil, nil, true},
		"it is plain":       {[]byte{0x91, 0xa1, 'x'}, nil, true},
		"it is sealed":      {sealed, nil, false},
		"it can't be read":  {nil, net.ErrClosed, false},
		"it is no sequence": {[]byte{0x91, 0xa5, 'x'}, nil, false},
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
		t.Error("nothing was looked at")
	}
}

// Replication begins when no reply is outstanding, or not at all.
func TestPipeSettles(t *testing.T) {
	p := newParts(t)
	p.sends(1, 0, wire.Ping)
	settled := make(chan error)
	go func() { settled <- p.s.awaitReplies() }()
	p.reply(wire.OK, 1)
	if err := <-settled; err != nil {
		t.Error(err)
	}
	p.sends(2, 0, wire.Ping)
	p.s.PumpedSession.Run(func() {
		if err := p.s.awaitReplies(); !errors.Is(err, errBusy) {
			t.Error(err)
		}
	}, func() {})
}

// A request to which only the stamp of its queue would be added goes unchanged behind the queue when there is
// no memory for a copy, even if a key in it begins like an envelope. That does not count as a shortage of
// memory.
func TestOnlyAStampWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParts(t)
		p.sends(1, 9, wire.Insert, 0x10, 600, 0x21, []any{1, abc})
		kept := &p.s.outstanding.retryBuffer
		kept.kept = maxKept
		taken := int64(0)
		for n := int64(1 << 20); n > 0; n /= 2 {
			if kept.budget.TryAcquire(n) {
				taken += n
			}
		}
		handled := make(chan error)
		go func() {
			f := frame{encode(t, wire.Update, 7, nil, keyed{0x10, 600, 0x11, 0, 0x20, []any{envelope.Magic}, 0x21, []any{[]any{"=", 4, 5}}}), 5}
			err := p.s.handleRequest(&f)
			handled <- errors.Join(err, p.s.toServer.flush(), p.s.toClient.flush())
		}()
		synctest.Wait() // for the queue to be empty
		p.reply(wire.OK, 1, 0x30, []any{[]any{1, abc}})
		p.client.expect(t, wire.OK, 1, 9)
		if err := <-handled; err != nil {
			t.Fatal(err)
		}
		p.client.nothing(t)
		if probe := p.server.next(t); probe.header.Type != wire.Ping { // asks how far the server is with the queue
			t.Errorf("%+v", probe.header)
		}
		p.server.expect(t, wire.Update, 7, 0)
		if n := p.g.cfg.Stats.Snapshot().Errors["budget"]; n != 0 {
			t.Errorf("%d requests are counted", n)
		}
		kept.budget.Release(taken)
		time.Sleep(time.Hour) // lets the budget reclaim the memory
	})
}
