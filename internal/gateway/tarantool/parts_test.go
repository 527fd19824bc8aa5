package tarantool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// partsOf has the parts of a session without a session: no server runs, and replies are made up.
type partsOf struct {
	t        *testing.T
	g        *Gateway
	talk     *conversation
	identity *identity
	retrier  *retrier
	pump     *replyPump

	server, client taker          // what is said to them
	replies        *gateway.Share // of a budget of 1 MiB
	ended          bool
}

// taker is a connection that keeps the frames that are written to it.
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
		if err := f.parse(); err != nil {
			return 0, err
		}
		k.frames <- f
		rest = rest[size+n:]
	}
	return len(p), nil
}

// next is the next frame.
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

// nothing says that no frame has come.
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
	p.g.vault.Stats = p.g.cfg.Stats
	p.server.frames, p.client.frames = make(chan *request, 1000), make(chan *request, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	room := gateway.NewBudget(1 << 20)
	p.replies = room.Share("replies")
	life := gateway.NewLife(gateway.LifeConfig{
		Client: &p.client, Upstream: &p.server, Requests: room.Share("requests"), Replies: p.replies, Stall: time.Second,
	})
	p.talk = newConversation(life, p.g.catalog, p.g.cfg.Stats)
	p.identity = &identity{door: &gateway.Door{Keeper: &gateway.Doorkeeper{}}}
	p.retrier = &retrier{
		talk: p.talk, rewriter: p.g.rewriter, statements: p.g.statements, identity: p.identity, ctx: ctx, log: p.g.cfg.Log,
		splicer: &splicer{talk: p.talk, vault: p.g.vault, room: life.Requests, ctx: ctx, client: &net.TCPAddr{}},
		end:     func() { p.ended = true; p.talk.outstanding.close() },
	}
	o := &opener{vault: p.g.vault, room: life.Replies, ctx: ctx, flush: p.talk.toClient.flush, stall: time.Millisecond, client: &net.TCPAddr{}}
	p.pump = &replyPump{
		talk: p.talk, opener: o, steps: &stepReader{opener: o, room: life.Requests, stats: p.g.cfg.Stats},
		identity: p.identity, retrier: p.retrier, pipe: &pipe{talk: p.talk},
	}
	return p
}

// moved has the schema at another version from now on.
func (p *partsOf) moved(version uint64) {
	all := *p.g.catalog.spaces.Load()
	all.version = version
	p.g.catalog.spaces.Store(&all)
}

func (p *partsOf) request(typ wire.Type, body ...any) *request {
	p.t.Helper()
	r := &request{bytes: encode(p.t, typ, 7, nil, body)[5:]}
	if err := r.parse(); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// sends has a request sent, as the client's, with a stamp.
func (p *partsOf) sends(sync, stamp uint64, typ wire.Type, body ...any) {
	p.t.Helper()
	f := frame{encode(p.t, typ, sync, keyed{0x05, stamp}, body), 5}
	e := exchange{kind: typ, stamp: stamp}
	original := frame{encode(p.t, typ, sync, nil, body), 5}
	if stamp != 0 && !p.talk.originals.keep(&e, &original, 0) {
		p.t.Fatal("no room")
	}
	if err := p.talk.submitNow(sync, e, f.bytes); err != nil {
		p.t.Fatal(err)
	}
	p.server.expect(p.t, typ, sync, stamp)
}

// reply has the server answer.
func (p *partsOf) reply(typ wire.Type, sync uint64, body ...any) {
	p.t.Helper()
	if err := p.pump.handle(&frame{encode(p.t, typ, sync, keyed{0x05, uint64(9)}, body), 5}); err != nil {
		p.t.Fatal(err)
	}
	if err := p.talk.toClient.flush(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *partsOf) sealed(value string) string {
	return string(p.g.vault.Sealer.Seal(nil, []byte(value), codec.Setting{Codec: codec.LZ4}, nil))
}

func TestConversation(t *testing.T) {
	p := newParts(t)
	if err := p.talk.probe(); err != nil {
		t.Fatal(err)
	}
	probe := p.server.next(t)
	if e, ok := p.talk.outstanding.take(probe.header.Sync); !ok || !e.probe || probe.header.Type != wire.Ping || probe.header.SyncAt.Len != 9 {
		t.Errorf("%+v %+v", e, probe.header)
	}
	if err := p.talk.refuse(3, unsupported("sql", "it")); err != nil {
		t.Fatal(err)
	}
	p.client.expect(t, wire.ErrorFlag|wire.ErrUnsupported, 3, 0)
	p.talk.outstanding.close()
	if err := p.talk.submit(4, exchange{}, nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
	p.server.nothing(t)
}

func TestIdentity(t *testing.T) {
	keeper := &gateway.Doorkeeper{Ask: func(context.Context) (bool, error) { return true, nil }}
	l := &identity{door: &gateway.Door{Keeper: keeper}}
	l.asked(1, "alice")
	l.asked(2, "bob")
	if l.login() != notSure {
		t.Error("a login without an answer is believed")
	}
	l.answered(wire.Auth, 2, wire.ErrorFlag)
	if !l.door.Stranger(t.Context()) {
		t.Error("a refused login opens the door")
	}
	l.answered(wire.Select, 1, wire.OK)
	if l.login() != notSure || !l.door.Stranger(t.Context()) {
		t.Error("the answer to another request is taken for the login's")
	}
	l.answered(wire.Auth, 1, wire.OK)
	if l.login() != "alice" || l.door.Stranger(t.Context()) {
		t.Errorf("login %q", l.login())
	}
	l.asked(3, "guest")
	if l.answered(wire.Auth, 3, wire.OK); l.login() != "" {
		t.Errorf("guest is %q", l.login())
	}
	l = &identity{door: &gateway.Door{Keeper: keeper}}
	if l.answered(wire.Insert, 1, wire.OK); l.door.Stranger(t.Context()) {
		t.Error("a guest that has written something is a stranger")
	}
}

// What a lane is while a request that can be refused is unanswered, and when there is nothing to know.
func TestLanes(t *testing.T) {
	var a lanes
	list := []*exchange{{stamp: 5}, {stamp: 5}, {}}
	for _, e := range list {
		a.place(e)
		a.opened(e)
	}
	if l := a.find(0); l.open != 2 || l.current() != 5 || list[2].order != 3 || !l.asks(0) || l.asks(0) || l.asks(1) {
		t.Errorf("%+v", l)
	}
	l := a.of(0)
	l.parked = append(l.parked, parked{2, *list[1]}, parked{1, *list[0]})
	if first := l.first(); first.order != 1 {
		t.Errorf("first %d", first.order)
	}
	if got := l.takeParked(); len(got) != 2 || got[0].sync != 1 || l.parked != nil {
		t.Errorf("%+v", got)
	}
	if !a.answered(list[0]) || a.answered(list[2]) || a.find(0) == nil {
		t.Error("an answer without a stamp counts, or one too many is forgotten")
	}
	if a.answered(list[1]); a.find(0) != nil || a.held() {
		t.Error("a lane of which there is nothing to know is kept")
	}
}

func TestExchangesWithOneSync(t *testing.T) {
	var x exchanges
	for n := range int16(3) {
		x.add(7, &exchange{tries: n})
	}
	x.change(func(e *exchange) bool { e.stream = 1; return true })
	if !x.any(func(e *exchange) bool { return e.tries == 2 && e.stream == 1 }) {
		t.Error("the last is not found")
	}
	for n := range int16(3) {
		if e, ok := x.take(7); !ok || e.tries != n {
			t.Errorf("%d in place of %d", e.tries, n)
		}
	}
	if _, ok := x.take(7); ok || x.waiting != 0 || len(x.more) > 0 {
		t.Error("one is left")
	}
}

func TestOriginalsTakeBudget(t *testing.T) {
	budget := gateway.NewBudget(1 << 20)
	o := &originals{budget: budget.Share("test").Account(nil, nil)}
	f := frame{bytes: make([]byte, maxKept)}
	var free, held, none exchange
	if !o.keep(&free, &f, 0) || free.held != 0 || !o.keep(&held, &f, 1) || held.held != 2*maxKept {
		t.Errorf("%d bytes of the budget", held.held)
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

// A request that must go alone waits for those that can be refused, and asks how far the server is.
func TestRequestsWaitForTheirLane(t *testing.T) {
	p := newParts(t)
	p.sends(1, 9, wire.Insert, 0x10, 600, 0x21, []any{1})
	if stamp, ok := p.talk.enter(0, false); stamp != 9 || !ok {
		t.Errorf("stamp %d", stamp)
	}
	if stamp, ok := p.talk.enter(5, true); stamp != 0 || !ok {
		t.Errorf("stamp %d in another lane", stamp)
	}
	in := make(chan uint64)
	go func() {
		stamp, _ := p.talk.enter(0, true)
		in <- stamp
	}()
	probe := p.server.next(t)
	p.reply(wire.OK, probe.header.Sync)
	if stamp := <-in; stamp != 0 {
		t.Errorf("stamp %d, alone", stamp)
	}
	if p.talk.originals.kept != 0 {
		t.Error("what can't be refused any more is kept")
	}
	p.reply(wire.OK, 1)
	p.client.expect(t, wire.OK, 1, 9)
}

var docBody = []any{0x10, 600, 0x21, []any{1, strings.Repeat("abc ", 30), 3}}

// Requests that the server refused for their stamp are sent again with the next, in their order.
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
	p.retrier.background.Wait()
	if p.talk.outstanding.busy() || p.talk.originals.kept != 0 || p.ended {
		t.Error("something is left")
	}
}

// A schema that changes all the time: what has nothing to be sealed goes as it came, the rest is refused.
func TestRetriesEnd(t *testing.T) {
	p := newParts(t)
	if w, no := p.retrier.rewrite(p.request(wire.Insert, docBody...), maxTries, 0); w.bytes != nil || w.stamp != 0 || no != nil {
		t.Errorf("%+v %v", w, no)
	}
	for _, r := range []*request{
		p.request(wire.Insert, 0x10, 600, 0x21, []any{1, cinch.Magic}),
		p.request(wire.Update, 0x10, 600, 0x20, []any{1}, 0x21, []any{[]any{":", 2, 1, 1, "x"}}),
	} {
		if _, no := p.retrier.rewrite(r, maxTries, 0); no == nil || no.what != "schema" {
			t.Errorf("%v", no)
		}
	}
}

// splicing parks a splice of the field whose value is in an envelope.
func (p *partsOf) splicing() {
	p.t.Helper()
	f := frame{encode(p.t, wire.Update, 7, nil, keyed{0x10, 600, 0x11, 0, 0x20, []any{1}, 0x15, 1, 0x21, []any{[]any{":", 2, 1, 1, "X"}}}), 5}
	e := exchange{kind: wire.Update}
	if !p.talk.originals.keep(&e, &f, 3) {
		p.t.Fatal("no room")
	}
	p.retrier.park(7, e)
}

// call takes a step, and gives its arguments.
func (p *partsOf) call() (sync uint64, args [][]byte) {
	p.t.Helper()
	f := p.server.next(p.t)
	spans, _, err := wire.Elements(nil, f.bytes, f.body.Tuple.At, 6)
	if err != nil || f.header.Type != wire.Call || f.header.Schema != 9 || len(spans) != 6 {
		p.t.Fatalf("%+v: %v", f.header, err)
	}
	for _, at := range spans {
		args = append(args, at.Of(f.bytes))
	}
	return f.header.Sync, args
}

func TestSpliceTakesSteps(t *testing.T) {
	p := newParts(t)
	p.talk.server.Store(&store.Version{Major: 2, Minor: 11})
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
		v, err := p.g.vault.Sealer.Open(nil, found.Content.Of(ops))
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
	p.retrier.background.Wait()
	if p.talk.originals.kept != 0 || p.talk.outstanding.busy() {
		t.Error("something is left")
	}
}

func TestSpliceWithoutTheFunction(t *testing.T) {
	p := newParts(t)
	p.splicing()
	sync, _ := p.call()
	p.reply(wire.ErrorFlag|wire.ErrNoProcedure, sync, 0x31, "Procedure '"+store.UpdateFunction+"' is not defined")
	p.client.expect(t, wire.ErrorFlag|wire.ErrUnsupported, 7, 9)
	p.retrier.background.Wait()
}

func TestSpliceEndsWithTheReplies(t *testing.T) {
	p := newParts(t)
	dead := make(chan struct{})
	p.talk.dead = dead
	p.splicing()
	p.call()
	close(dead)
	p.retrier.background.Wait()
	if !p.ended {
		t.Error("the session goes on")
	}
}

func TestStepReader(t *testing.T) {
	p := newParts(t)
	read := func(x *splice, typ wire.Type, body ...any) (stepAnswer, bool, *refusal) {
		r := &reply{bytes: encode(t, typ, 1<<63, nil, body)[5:]}
		if err := r.header.Parse(r.bytes); err != nil {
			t.Fatal(err)
		}
		if err := r.readdress(3); err != nil || r.header.Sync != 3 {
			t.Fatal(err)
		}
		a, again, no, err := p.pump.steps.read(x, r)
		if err != nil {
			t.Fatal(err)
		}
		return a, again, no
	}
	x := &splice{kind: wire.Update}
	if _, again, no := read(x, wire.ErrorFlag|wire.ErrConflict); !again || no != nil {
		t.Error("a conflict outside of a transaction of the client's is no reason to try again")
	}
	x.stream = 1
	if _, again, no := read(x, wire.ErrorFlag|wire.ErrConflict); again || no != nil {
		t.Error("one within is")
	}
	if _, again, no := read(x, wire.OK, 0x30, []any{nil, []any{strings.Repeat("a", 1<<20)}}); again || no != noMemory {
		t.Error("more is kept than the budget has room for")
	}
	if _, again, no := read(x, wire.OK, 0x30, []any{nil, []any{cinch.Magic + "\x01"}}); again || no == nil {
		t.Error("a broken envelope is expected")
	}
	r := &reply{bytes: encode(t, wire.OK, 1, nil, nil)[5:]}
	if err := r.header.Parse(r.bytes); err != nil {
		t.Fatal(err)
	}
	r.header.SyncAt.Len = 1
	if r.readdress(3) == nil {
		t.Error("there is no room for another sync")
	}
}

func TestOpenerWithinBudget(t *testing.T) {
	p := newParts(t)
	o := p.pump.opener
	open := func(kind wire.Type, values ...any) ([]byte, *refusal) {
		r := &reply{bytes: encode(t, wire.OK, 1, nil, keyed{0x30, values})[5:]}
		if err := r.header.Parse(r.bytes); err != nil {
			t.Fatal(err)
		}
		return o.open(r, kind)
	}
	if out, no := open(wire.Select, "plain"); out != nil || no != nil {
		t.Error("what holds no envelope changes")
	}
	large := strings.Repeat("abc ", 64<<10)
	if out, no := open(wire.Select, p.sealed(large)); no != nil || !bytes.Contains(out, []byte(large)) || o.held == 0 {
		t.Errorf("%v, %d bytes are held", no, o.held)
	}
	if o.release(); o.held != 0 {
		t.Error("release holds on")
	}
	other := p.replies.Account(nil, nil) // whose message is all that may be beyond the budget
	defer other.Close()
	if err := other.Acquire(t.Context(), 2<<20); err != nil {
		t.Fatal(err)
	}
	if _, no := open(wire.Select, p.sealed(large)); no == nil || no.what != "budget" {
		t.Errorf("while others have the budget: %v", no)
	}
	if _, no := open(wire.Select, cinch.Magic+"\x01"); no == nil {
		t.Error("a broken envelope passes in a tuple")
	}
	if out, no := open(wire.Call, cinch.Magic+"\x01"); out != nil || no != nil {
		t.Error("what Lua made is taken for an envelope")
	}
}

// A part of an answer that does not open is left out, and the answer is the error.
func TestBrokenPart(t *testing.T) {
	p := newParts(t)
	p.sends(1, 0, wire.Select, 0x10, 600)
	p.reply(wire.Chunk, 1, 0x30, []any{cinch.Magic + "\x01"})
	p.client.nothing(t)
	p.reply(wire.OK, 1, 0x30, []any{1})
	p.client.expect(t, wire.ErrorFlag|wire.ErrSystem, 1, 9)
}

// The schema is read again when there is a reason, and what was known stays in force when that fails.
func TestCatalogReadsAgain(t *testing.T) {
	reads, version, fail := 0, uint64(3), error(nil)
	log := slog.New(slog.DiscardHandler)
	c := newCatalog(t.Context(), nil, func(context.Context) (*store.Schema, error) {
		reads++
		return &store.Schema{Version: version}, fail
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
	c.note(4)
	expect("an answer names a newer version", 2, 5)
	c.note(3)
	c.refused(3)
	expect("an old answer", 2, 5)
	c.refused(5)
	expect("a request by that version is refused", 3, 5)
	c.lost()
	expect("a connection was lost", 4, 5)
	fail = errors.New("down")
	c.lost()
	expect("the server is down", 5, 5)
	fail, version = nil, 2
	c.greet()
	expect("it has greeted a client, and counts anew", 6, 2)
	if c := newCatalog(t.Context(), nil, nil, nil, log); c.readsSchema() || c.current(t.Context()) != nil || c.need(t.Context()) != nil {
		t.Error("something is known without a way to read it")
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
	} {
		for mode, want := range passes {
			s := &statements{catalog: p.g.catalog, mode: SQLMode(mode)}
			if no := s.check(t.Context(), p.request(wire.Execute, 0x40, text)); (no == nil) != want {
				t.Errorf("%s in mode %d: %v", text, mode, no)
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
		l := look(func(_ context.Context, space, index uint32, key []byte) ([]byte, error) {
			if space != 600 || index != 0 || !slices.Equal(key, []byte{0x91, 1}) {
				t.Errorf("space %d, index %d, key % x", space, index, key)
			}
			return test.tuple, test.err
		})
		if got := l.storesPlain(t.Context(), p.g.vault, r, need{all.byID[600], all, noMemory}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if look(nil).storesPlain(t.Context(), p.g.vault, r, need{}) {
		t.Error("nobody has looked")
	}
}

// Replication begins when nothing is outstanding, or not at all.
func TestPipeSettles(t *testing.T) {
	p := newParts(t)
	p.sends(1, 0, wire.Ping)
	settled := make(chan error)
	go func() { settled <- p.pump.pipe.settle() }()
	p.reply(wire.OK, 1)
	if err := <-settled; err != nil {
		t.Error(err)
	}
	dead := make(chan struct{})
	close(dead)
	p.talk.dead = dead
	p.sends(2, 0, wire.Ping)
	if err := p.pump.pipe.settle(); !errors.Is(err, errBusy) {
		t.Error(err)
	}
}
