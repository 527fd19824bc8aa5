package tarantool

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/test/testenv"
)

// If its own login fails, the gateway compresses nothing, but serves clients, decompresses envelopes, and refuses
// requests that could cut an envelope.
func TestOwnLoginIsWrong(t *testing.T) {
	t.Parallel()
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	b.put(b.client(), 1, document(1))
	p := b.g.catalog.rules.Load()
	addr := lone(t, b.server.Addr, func(c *Config) {
		c.Policy, c.Engine = p, b.g.cfg.Engine
		c.Schema = schemaBy(t, connTo(b.server.Addr, "guest", "wrong"))
	})
	c := dial(t, addr)
	if got := c.selectOne(docs, 1)[2]; got != document(1) {
		t.Errorf("got %.60q", got)
	}
	c.must(wire.Replace, 0x10, docs, 0x21, tuple(2, document(2)))
	if stored := b.direct().selectOne(docs, 2)[2]; stored != document(2) {
		t.Errorf("stored %.60q", stored)
	}
	a := c.do(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{":", "doc", 0, 1, "X"}})
	if a.code != wire.ErrorFlag|wire.ErrSystem || !strings.Contains(a.text, "schema could not be read") {
		t.Errorf("a splice: %#x %s", a.code, a.text)
	}
	b.check(b.client(), 1, document(1), true)
}

// While the schema keeps changing, each splice is applied once or refused.
func TestSplicesWhileTheSchemaChanges(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	b.install()
	b.put(b.client(), 1, document(1))
	done := make(chan struct{})
	var answered atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		defer close(done)
		direct := b.direct()
		for range 25 {
			// However slow the machine is, clients make progress between changes.
			for before := answered.Load(); answered.Load() == before && !t.Failed(); {
				time.Sleep(time.Millisecond)
			}
			direct.must(wire.Eval, 0x27, "local s = box.space.plain if s.index.other then s.index.other:drop() else s:create_index('other', {parts = {{2, 'unsigned'}}}) end", 0x21, []any{})
			time.Sleep(10 * time.Millisecond)
		}
	})
	var mu sync.Mutex
	spliced := 0
	for range 3 {
		all.Go(func() {
			c := b.client()
			for {
				select {
				case <-done:
					return
				default:
				}
				a := c.do(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{":", "doc", -1, 0, "+"}})
				answered.Add(1)
				switch {
				case a.code == wire.OK:
					mu.Lock()
					spliced++
					mu.Unlock()
				case !strings.Contains(a.text, "the schema keeps changing"):
					t.Errorf("%#x %s", a.code, a.text)
					return
				}
			}
		})
	}
	all.Wait()
	b.check(b.client(), 1, document(1)+strings.Repeat("+", spliced), true)
	if spliced == 0 || b.stats.Snapshot().Errors["schema_changed"] == 0 {
		t.Errorf("%d splices, errors %v", spliced, b.stats.Snapshot().Errors)
	}
}

// After a server was killed under load and restarted, it has all documents that it had confirmed, and the gateway
// compresses again, though the server counts schema versions from the beginning.
func TestServerRestartsUnderLoad(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	b.install()
	stop := make(chan struct{})
	var all sync.WaitGroup
	const writers = 3
	var confirmed [writers]int
	var written atomic.Int64
	for w := range writers {
		all.Go(func() {
			for {
				confirmed[w] += b.writeUntilCut(w, confirmed[w], &written, stop)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	testenv.Eventually(t, "documents are written", func() bool { return written.Load() >= 30 })
	b.server.Kill()
	if err := b.server.Restart(t); err != nil {
		t.Fatal(err)
	}
	before := written.Load()
	testenv.Eventually(t, "documents are written again", func() bool { return written.Load() >= before+30 })
	close(stop)
	all.Wait()
	c := b.client()
	for w := range writers {
		for i := range confirmed[w] {
			id := w*1_000_000 + i
			if got, want := c.selectOne(docs, id)[2], "X"+document(i)[1:]; got != want {
				t.Fatalf("%d: %.60q", id, got)
			}
		}
	}
	testenv.Eventually(t, "values are sealed again", func() bool {
		b.put(c, 999, document(999))
		return sealed(b.direct().selectOne(docs, 999)[2])
	})
	t.Logf("confirmed: %v", confirmed)
}

// writeUntilCut writes and splices documents until the connection ends or stop is closed, and returns how many were
// confirmed. written counts the confirmed documents of all writers.
func (b *bed) writeUntilCut(writer, from int, written *atomic.Int64, stop chan struct{}) (n int) {
	conn, err := net.Dial("tcp", b.addr)
	if err != nil {
		return 0
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(3 * time.Minute))
	if _, err := io.ReadFull(conn, make([]byte, wire.GreetingLen)); err != nil {
		time.Sleep(10 * time.Millisecond)
		return 0
	}
	c := &raw{t: b.t, c: conn}
	for ; ; n++ {
		select {
		case <-stop:
			return n
		default:
		}
		id := writer*1_000_000 + from + n
		for _, body := range []keyed{
			{0x10, docs, 0x21, tuple(id, document(from+n))},
			{0x10, docs, 0x11, 0, 0x20, []any{id}, 0x21, []any{[]any{":", "doc", 0, 1, "X"}}},
		} {
			typ := wire.Replace
			if len(body) > 4 {
				typ = wire.Update
			}
			c.sync++
			if _, err := conn.Write(encode(b.t, typ, c.sync, nil, body)); err != nil {
				return n
			}
			a, err := c.tryRead()
			if err != nil {
				return n
			}
			if a.code != wire.OK {
				b.t.Errorf("%#x %s", a.code, a.text)
				return n
			}
		}
		written.Add(1)
	}
}

// bump changes the schema until its version is the argument, and returns the version.
const bump = `local to = ... local x = box.space.plain
	while box.internal.schema_version() < to do if x.index.other then x.index.other:drop() else x:create_index('other', {parts = {{2, 'unsigned'}}}) end end
	return box.internal.schema_version()`

// A server that is restarted while no client is connected counts schema versions from the beginning. The gateway must
// read the schema again even if its version equals that of the last schema that it has read.
func TestRestartUnseen(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	version := b.direct().must(wire.Eval, 0x27, bump, 0x21, []any{200}).([]any)[0]
	b.direct().must(wire.Eval, 0x27, "box.snapshot()", 0x21, []any{})
	c := b.client()
	b.put(c, 1, document(1))
	if !sealed(b.direct().selectOne(docs, 1)[2]) {
		t.Fatal("it is not sealed")
	}
	_ = c.c.Close()
	for b.stats.Snapshot().Connections.Open != 0 {
		time.Sleep(time.Millisecond)
	}
	b.server.Kill()
	if err := b.server.Restart(t); err != nil {
		t.Fatal(err)
	}
	d := b.direct()
	d.must(wire.Eval, 0x27, "box.space.docs:create_index('doc', {parts = {{'doc', 'string'}}})", 0x21, []any{})
	if now := d.must(wire.Eval, 0x27, bump, 0x21, []any{version}).([]any)[0]; fmt.Sprint(now) != fmt.Sprint(version) {
		t.Fatalf("the version is %v, not %v", now, version)
	}
	b.put(b.client(), 2, document(2))
	if sealed(d.selectOne(docs, 2)[2]) {
		t.Error("an indexed field was sealed")
	}
}

// When the upstream's address leads to another server, the gateway reads the schema there, though the old server still
// runs and its schema has the same version.
func TestAnotherServer(t *testing.T) {
	old, next := newBed(t, policy.Options{Rules: rules()}, nil), newBed(t, policy.Options{}, nil)
	version := old.direct().must(wire.Eval, 0x27, bump, 0x21, []any{200}).([]any)[0]
	d := next.direct()
	d.must(wire.Eval, 0x27, "box.space.docs:create_index('doc', {parts = {{'doc', 'string'}}})", 0x21, []any{})
	if now := d.must(wire.Eval, 0x27, bump, 0x21, []any{version}).([]any)[0]; fmt.Sprint(now) != fmt.Sprint(version) {
		t.Fatalf("the version is %v, not %v", now, version)
	}
	var leadsTo atomic.Pointer[string]
	leadsTo.Store(&old.server.Addr)
	addr := forward(t, func() string { return *leadsTo.Load() })
	conn := connTo(addr, "", "")
	gateway := lone(t, addr, func(c *Config) {
		c.Policy, c.Engine, c.Greeted = old.g.catalog.rules.Load(), old.g.cfg.Engine, conn.Follow
		c.Schema = schemaBy(t, conn)
	})
	old.put(dial(t, gateway), 1, document(1))
	if !sealed(old.direct().selectOne(docs, 1)[2]) {
		t.Error("not sealed in the old server")
	}
	leadsTo.Store(&next.server.Addr)
	next.put(dial(t, gateway), 1, document(1))
	if sealed(d.selectOne(docs, 1)[2]) {
		t.Error("an indexed field was sealed")
	}
}

// forward starts a listener that connects each client to the address that to returns at that time.
func forward(t *testing.T, to func() string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	relay := func(from, to net.Conn) {
		defer from.Close()
		defer to.Close()
		_, _ = io.Copy(to, from)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to())
			if err != nil {
				_ = c.Close()
				continue
			}
			go relay(c, server)
			go relay(server, c)
		}
	}()
	return l.Addr().String()
}

// A gateway whose own user may not see a space that rules name compresses nothing there, and does not cut values that
// other gateways have compressed.
func TestUnseenSpace(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	b.put(b.client(), 1, document(1))
	stored := b.direct().selectOne(docs, 1)[2]
	b.direct().must(wire.Eval, 0x27, `box.schema.user.create('blind', {password = 'blind'})`, 0x21, []any{})
	c := dial(t, lone(t, b.server.Addr, func(cfg *Config) {
		cfg.Policy, cfg.Engine = b.g.catalog.rules.Load(), b.g.cfg.Engine
		cfg.Schema = schemaBy(t, connTo(b.server.Addr, "blind", "blind"))
	}))
	cut := []any{[]any{":", 2, 20, 30, "X"}}
	for _, a := range []answer{
		c.do(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, cut),
		c.do(wire.Upsert, 0x10, docs, 0x21, tuple(1, "doc"), 0x28, cut),
		c.do(wire.Execute, 0x40, `UPDATE "docs" SET "doc" = substr("doc", 5)`, 0x41, []any{}),
	} {
		if a.code != wire.ErrorFlag|wire.ErrUnsupported {
			t.Errorf("%#x %s", a.code, a.text)
		}
	}
	if got := b.direct().selectOne(docs, 1)[2]; got != stored {
		t.Error("an envelope was changed")
	}
	c.must(wire.Update, 0x10, docs, 0x11, 0, 0x20, []any{1}, 0x21, []any{[]any{"=", 2, document(2)}})
	b.check(c, 1, document(2), false)
}
