package tarantool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A field that gets an index between two requests is not compressed any more, though the gateway has not read the new
// schema yet, and the request succeeds.
func TestFieldGetsIndex(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c, direct := b.client(), b.direct()
	b.put(c, 1, document(1))
	b.check(c, 1, document(1), true)
	direct.must(wire.Eval, 0x27, "box.space.docs:delete(1) box.space.docs:create_index('doc', {parts = {{'doc', 'string'}}})", 0x21, []any{})
	b.put(c, 2, document(2))
	b.check(c, 2, document(2), false)
	if got := c.must(wire.Select, 0x10, docs, 0x11, 2, 0x12, 9, 0x13, 0, 0x14, 0, 0x20, []any{document(2)}).([]any); len(got) != 1 {
		t.Errorf("%d found by the new index", len(got))
	}
	if b.stats.Snapshot().Errors["schema_changed"] == 0 {
		t.Error("no request met another schema")
	}
	direct.must(wire.Eval, 0x27, "box.space.docs.index.doc:drop()", 0x21, []any{})
	b.put(c, 3, document(3))
	b.check(c, 3, document(3), true)
}

// While the schema keeps changing, requests are delayed but not lost, and values of a field with an index are not
// compressed.
func TestSchemaChangesUnderLoad(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	direct := b.direct()
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(done)
		for i := range 15 {
			direct.must(wire.Eval, 0x27, fmt.Sprintf(`
				local s = box.space.docs
				if %d %% 2 == 0 then s:create_index('doc', {parts = {{'doc', 'string'}}, unique = false}) else s.index.doc:drop() end`, i), 0x21, []any{})
			time.Sleep(20 * time.Millisecond)
		}
	})
	const each = 1000
	for w := range 4 {
		all.Go(func() {
			c := b.client()
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				id := w*each*each + i%each
				if a := c.do(wire.Replace, 0x10, docs, 0x21, tuple(id, document(i))); a.code != wire.OK {
					t.Errorf("%#x %s", a.code, a.text)
				}
				if got := c.selectOne(docs, id)[2]; got != document(i) {
					t.Errorf("%d: %.60q", i, got)
				}
			}
		})
	}
	all.Wait()
	// The last change created the index: values written afterwards must not be compressed.
	c := b.client()
	b.put(c, 1, document(1))
	b.check(c, 1, document(1), false)
}

// A client that puts a schema version into its requests gets an error if that is wrong.
func TestClientsOwnVersion(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	now := c.do(wire.Ping).schema
	for version, want := range map[uint64]wire.Type{0: wire.OK, now: wire.OK, now + 7: wire.ErrorFlag | wire.ErrSchemaVersion} {
		c.sync++
		c.write(encode(t, wire.Replace, c.sync, keyed{5, version}, keyed{0x10, docs, 0x21, tuple(1, document(1))}))
		if a := c.read(); a.code != want {
			t.Errorf("version %d: %#x %s", version, a.code, a.text)
		} else if a.code == wire.OK {
			b.check(c, 1, document(1), true)
			c.must(wire.Delete, 0x10, docs, 0x11, 0, 0x20, []any{1})
		}
	}
}

func TestRepliesComeInAnyOrder(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	b.put(c, 1, document(1))
	slow := c.send(wire.Call, 0x22, "slow", 0x21, []any{})
	fast := c.send(wire.Select, 0x10, docs, 0x11, 0, 0x12, 1, 0x13, 0, 0x14, 0, 0x20, []any{1})
	first := c.read()
	b.wake()
	second := c.read()
	if first.sync != fast || second.sync != slow {
		t.Errorf("%d before %d", first.sync, second.sync)
	}
}

// Clients may write many requests before they read replies, and may use a sync for several requests.
func TestPipelines(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	const n = 3000
	var all []byte
	for i := range n {
		all = append(all, encode(t, wire.Replace, uint64(i%100), nil, keyed{0x10, docs, 0x21, tuple(i, document(i))})...)
	}
	go c.c.Write(all)
	count := map[uint64]int{}
	for range n {
		a := c.read()
		if a.code != wire.OK {
			t.Fatalf("%#x %s", a.code, a.text)
		}
		count[a.sync]++
	}
	for sync, got := range count {
		if got != n/100 {
			t.Fatalf("%d replies to %d", got, sync)
		}
	}
	b.check(c, n-1, document(n-1), true)
}

// fake starts a server that sends a greeting, keeps what it receives in got, and runs answer.
func fake(t *testing.T, answer func(net.Conn)) (addr string, got *bytes.Buffer, done chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	got, done = &bytes.Buffer{}, make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Write(make([]byte, wire.GreetingLen))
		if answer != nil {
			answer(c)
		}
		_, _ = io.Copy(got, c)
	}()
	return l.Addr().String(), got, done
}

// lone starts a gateway without rules and schema in front of an upstream, and returns its address.
func lone(t *testing.T, upstream string, change func(*Config)) string {
	t.Helper()
	_, addr := loneGateway(t, upstream, change)
	return addr
}

func loneGateway(t *testing.T, upstream string, change func(*Config)) (g *Gateway, addr string) {
	t.Helper()
	up, err := endpoint.ParseUpstream("tcp://"+upstream, "")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Name: "lone", Upstream: up, Stats: gateway.NewStats("lone", "tarantool")}
	if change != nil {
		change(&cfg)
	}
	g = NewGateway(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = g.Shutdown(ctx)
	})
	return g, l.Addr().String()
}

// Frames in which nothing has to be changed are forwarded byte for byte, whatever encoding the client uses.
func TestUntouchedFrames(t *testing.T) {
	addr, got, done := fake(t, nil)
	c := dial(t, lone(t, addr, nil))
	var want []byte
	for _, typ := range []wire.Type{wire.Select, wire.Insert, wire.Update, wire.Call, wire.Auth, wire.Ping, wire.Begin, wire.Watch, 99, 500} {
		f := encode(t, typ, 1, keyed{0x0a, 3, 0x77, "?"}, keyed{0x10, docs, 0x21, []any{1, "x"}, 0x99, []any{}})
		want = append(want, f...)
		body := f[5:]
		want = append(append(want, 0xcc, byte(len(body))), body...)                                          // other forms of the length
		want = append(append(want, 0xcf, 0, 0, 0, 0, 0, 0, 0, byte(len(body))), body...)                     //
		want = append(append(want, 0xcd, 0, byte(len(body)+1)), append(body[:len(body):len(body)], 0xc0)...) // bytes behind the body
	}
	want = append(want, 3, 0xc1, 0xc1, 0xc1) // no header at all
	c.write(want)
	_ = c.c.(*net.TCPConn).CloseWrite()
	<-done
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes, want %d", got.Len(), len(want))
	}
}

func TestHostileFrames(t *testing.T) {
	t.Parallel()
	for name, f := range map[string][]byte{
		"huge length":    {0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"2 GiB":          {0xce, 0x7f, 0xff, 0xff, 0xff},
		"no length":      {0xa3, 'a', 'b', 'c'},
		"huge array":     append([]byte{0xce, 0, 0, 0, 12, 0x82, 0, 2, 1, 1, 0x81, 0x21}, 0xdd, 0xff, 0xff, 0xff, 0xff),
		"nested a while": append([]byte{0xce, 0, 1, 0x86, 0xa7, 0x82, 0, 2, 1, 1, 0x81, 0x21}, bytes.Repeat([]byte{0x91}, 100000)...),
	} {
		t.Run(name, func(t *testing.T) {
			addr, _, _ := fake(t, nil)
			c := dial(t, lone(t, addr, nil))
			c.write(f)
			_ = c.c.(*net.TCPConn).CloseWrite()
			a, err := c.tryRead()
			if err == nil && a.code != wire.ErrorFlag|wire.ErrInvalid {
				t.Errorf("answered %#x", a.code)
			}
		})
	}
}

// Values of many megabytes pass both ways, those above max_seal uncompressed.
func TestHugeValues(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, func(c *Config) { c.MaxSeal = 4 << 20 })
	b.direct().must(wire.Eval, 0x27, "box.cfg{memtx_max_tuple_size = 64 * 1024 * 1024}", 0x21, []any{})
	c := b.client()
	for id, n := range map[int]int{1: 1 << 20, 2: 3 << 20, 3: 9 << 20} {
		doc := strings.Repeat(document(id), n/len(document(id)))
		c.must(wire.Replace, 0x10, docs, 0x21, []any{id, "tag", doc})
		b.check(c, id, doc, n < 4<<20)
	}
	var want int
	for _, tuple := range c.must(wire.Select, 0x10, docs, 0x11, 0, 0x12, 10, 0x13, 0, 0x14, 2, 0x20, []any{}).([]any) {
		want += len(tuple.([]any)[2].(string))
	}
	if want < 12<<20 {
		t.Errorf("%d bytes", want)
	}
	for _, budget := range []*memory.Budget{b.g.cfg.Requests, b.g.cfg.Replies} {
		testenv.Eventually(t, "the budget is given back", func() bool { return budget.InUse() == 0 })
	}
}

// A tuple above the server's limit on tuple sizes can be stored if its compressed form is below the limit.
func TestTupleAboveTheServersLimit(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	doc := strings.Repeat(document(1), (2<<20)/len(document(1)))
	if a := b.direct().do(wire.Replace, 0x10, docs, 0x21, []any{1, "tag", doc}); a.code == wire.OK {
		t.Fatal("the server takes it raw")
	}
	c.must(wire.Replace, 0x10, docs, 0x21, []any{1, "tag", doc})
	b.check(c, 1, doc, true)
}

// After a half-close the connection ends, as with the server itself.
func TestHalfClose(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	for _, c := range []*raw{b.direct(), b.client()} {
		b.put(c, 1, document(1))
		_ = c.c.(*net.TCPConn).CloseWrite()
		if _, err := c.tryRead(); !errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
	}
}

func TestServerRestarts(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	b.put(c, 1, document(1))
	b.server.Kill()
	if _, err := c.tryRead(); err == nil {
		t.Error("the connection lives on")
	}
	if err := b.server.Restart(t); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "clients are served", func() bool {
		c, err := net.Dial("tcp", b.addr)
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = io.ReadFull(c, make([]byte, wire.GreetingLen))
		return err == nil
	})
	c = b.client()
	b.check(c, 1, document(1), true)
	b.put(c, 2, document(2))
	b.check(c, 2, document(2), true)
}

// A replica that joins through the gateway gets the tuples in stored form.
func TestReplication(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c := b.client()
	b.put(c, 1, document(1))
	script := filepath.Join(t.TempDir(), "replica.lua")
	text := fmt.Sprintf("box.cfg{listen = '127.0.0.1:' .. arg[1], replication = {'guest@%s'}, read_only = true}\nrequire('fiber').create(function() while true do require('fiber').sleep(3600) end end)\n", b.addr)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := testenv.Server(t, "tarantool", script, "PORT")
	b.put(c, 2, document(2))
	replica := dial(t, addr)
	testenv.Eventually(t, "the replica has the second tuple", func() bool {
		got, _ := replica.do(wire.Select, 0x10, docs, 0x11, 0, 0x12, 9, 0x13, 0, 0x14, 2, 0x20, []any{}).data.([]any) // the replica listens before it has joined
		return len(got) == 2
	})
	all := []any{0x10, docs, 0x11, 0, 0x12, 9, 0x13, 0, 0x14, 2, 0x20, []any{}}
	if there, here := replica.must(wire.Select, all...), b.direct().must(wire.Select, all...); fmt.Sprint(there) != fmt.Sprint(here) || !sealed(there.([]any)[0].([]any)[2]) {
		t.Errorf("replica %.80q, master %.80q", there, here)
	}
}

// connectAs connects with a driver and logs in.
func connectAs(t *testing.T, addr, user, password string) (*tnt.Connection, error) {
	t.Helper()
	return tnt.Connect(t.Context(), tnt.NetDialer{Address: addr, User: user, Password: password}, tnt.Opts{Timeout: time.Minute})
}

// updateDoc splices a document's first byte.
func updateDoc(id int, with string) tnt.Request {
	return tnt.NewUpdateRequest("docs").Key([]any{id}).Operations(tnt.NewOperations().Splice(2, 0, 1, with))
}

// TestDriver uses a driver that reads the schema, names spaces and sends several requests at a time.
func TestDriver(t *testing.T) {
	b := newBed(t, policy.Options{Rules: rules()}, nil)
	c, err := connectAs(t, b.addr, "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 500
	var futures []*tnt.Future
	for i := range n {
		futures = append(futures, c.Do(tnt.NewReplaceRequest("docs").Tuple([]any{i, "tag", document(i)})))
	}
	for _, f := range futures {
		if _, err := f.Get(); err != nil {
			t.Fatal(err)
		}
	}
	futures = futures[:0]
	for i := range n {
		futures = append(futures, c.Do(tnt.NewSelectRequest("docs").Key([]any{i})))
	}
	for i, f := range futures {
		got, err := f.Get()
		if err != nil {
			t.Fatal(err)
		}
		if doc := got[0].([]any)[2]; doc != document(i) {
			t.Fatalf("%d: %.60q", i, doc)
		}
	}
	b.check(b.client(), 7, document(7), true)
	if snap := b.stats.Snapshot(); snap.Total.Sealed < n || snap.Total.Opened < n {
		t.Errorf("%d sealed, %d opened", snap.Total.Sealed, snap.Total.Opened)
	}
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

// Replication begins when no reply is outstanding, and not at all if the replies end before that or take too long.
func TestReplicationWaitsForReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newParts(t)
		o := p.s.outstanding
		await := func() <-chan error {
			result := make(chan error, 1)
			go func() { result <- o.awaitReplies() }()
			synctest.Wait()
			return result
		}
		p.sends(1, 0, wire.Ping)
		answered := await()
		p.reply(wire.OK, 1)
		if err := <-answered; err != nil {
			t.Error(err)
		}
		p.sends(2, 0, wire.Ping)
		if err := <-await(); !errors.Is(err, errBusy) {
			t.Error(err)
		}
		closed := await()
		o.close()
		if err := <-closed; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
