package tarantool

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
	"github.com/cinch-layer/cinch/test/testenv"
)

// script creates the spaces of the tests.
const script = `
local docs = box.schema.space.create('docs', {id = 600, if_not_exists = true, format = {
    {'id', 'unsigned'}, {'tag', 'string'}, {'doc', 'string'}, {name = 'extra', type = 'any', is_nullable = true},
    {name = 'bin', type = 'varbinary', is_nullable = true}}})
docs:create_index('pk', {if_not_exists = true})
docs:create_index('tag', {parts = {{'tag', 'string'}}, unique = false, if_not_exists = true})
local plain = box.schema.space.create('plain', {id = 601, if_not_exists = true})
plain:create_index('pk', {if_not_exists = true})
local function keep(compression)
    return box.schema.space.create('kept', {id = 602, if_not_exists = true, format = {
        {'id', 'unsigned'}, {name = 'doc', type = 'string', compression = compression}}})
end
local ok, kept = pcall(keep, 'lz4')
if not ok then kept = keep() end -- newer servers refuse it
kept:create_index('pk', {if_not_exists = true})
function put(id, doc) return box.space.docs:replace{id, 'tag', doc} end
function put_table(t) return box.space.docs:replace{t.id, 'tag', t.doc} end
function get(id) local t = box.space.docs:get(id) return {found = {{t}}, deep = {{{t}}}}, t end
function push(id) box.session.push(box.space.docs:get(id)) return 'done' end
function stored(id) return #box.space.docs:get(id).doc end
asleep, awake = 0, false
function slow() asleep = asleep + 1 while not awake do require('fiber').sleep(0.01) end return 'slept' end
`

// rules returns rules for the field doc of docs, and for the functions.
func rules() []policy.Rule {
	zstd := codec.Setting{Codec: codec.Zstd, Level: 3}
	return []policy.Rule{
		{Name: "doc", Key: "docs", Field: "doc", Types: policy.Tuple, Setting: zstd},
		{Name: "by-number", Key: "600", Field: "5", Types: policy.Tuple, Setting: zstd},
		{Name: "put", Key: "put", Field: "2", Types: policy.Argument, Setting: zstd},
		{Name: "put-table", Key: "put_table", Field: "1.doc", Types: policy.Argument, Setting: zstd},
	}
}

// bed is a server with a gateway in front.
type bed struct {
	t      *testing.T
	server *testenv.TarantoolServer
	g      *Gateway
	stats  *gateway.Stats
	addr   string // address of the gateway
}

func newBed(t *testing.T, o policy.Options, change func(*Config)) *bed {
	t.Helper()
	return newBedOf(t, testenv.Program(t, "tarantool"), o, change)
}

// newBedOf is newBed with the server program at a path.
func newBedOf(t *testing.T, program string, o policy.Options, change func(*Config)) *bed {
	t.Helper()
	b := &bed{t: t, server: testenv.TarantoolOf(t, program, script), stats: gateway.NewStats("t", "tarantool")}
	p, err := policy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	up, err := endpoint.ParseUpstream("tcp://"+b.server.Addr, "")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Name: "t", Upstream: up, Policy: p, Engine: codec.New(codec.Options{}), Stats: b.stats,
		Requests: memory.NewBudget(64 << 20), Replies: memory.NewBudget(64 << 20),
		Schema: schemaBy(t, b.conn()), Log: slog.New(slog.NewTextHandler(testLog{t}, nil)),
	}
	if change != nil {
		change(&cfg)
	}
	b.g = NewGateway(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- b.g.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = b.g.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return b
}

// install does what 'cinch tarantool init' does.
func (b *bed) install() {
	b.t.Helper()
	c := b.conn()
	defer c.Close()
	if _, err := store.Install(b.t.Context(), c, store.InstallOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// connTo returns a connection of package store to an address. user "" is guest.
func connTo(addr, user, password string) *store.Conn {
	return store.NewConn(store.Options{User: user, Password: password, Timeout: time.Minute, Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}})
}

// conn returns a connection of package store to the server, not through the gateway.
func (b *bed) conn() *store.Conn { return connTo(b.server.Addr, "", "") }

// schemaBy returns a function that reads the schema on c. It closes c when the test ends.
func schemaBy(t *testing.T, c *store.Conn) func(context.Context) (*schema.Schema, error) {
	t.Cleanup(c.Close)
	return func(ctx context.Context) (*schema.Schema, error) { return store.Load(ctx, c) }
}

// asleep waits until the server runs a call of slow, which lasts until wake.
func (b *bed) asleep() {
	b.t.Helper()
	direct := b.direct()
	testenv.Eventually(b.t, "the server sleeps", func() bool {
		return fmt.Sprint(direct.must(wire.Eval, 0x27, "return asleep", 0x21, []any{})) == "[1]"
	})
}

func (b *bed) wake() { b.t.Helper(); b.direct().must(wire.Eval, 0x27, "awake = true", 0x21, []any{}) }

type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	defer func() { _ = recover() }() // t.Log panics after the test has ended
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// raw is a client that writes frames by hand.
type raw struct {
	t    *testing.T
	c    net.Conn
	sync uint64
	last answer
}

func dial(t *testing.T, addr string) *raw {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	greeting := make([]byte, wire.GreetingLen)
	if _, err := io.ReadFull(c, greeting); err != nil {
		t.Fatal(err)
	}
	return &raw{t: t, c: c}
}

func (b *bed) client() *raw { b.t.Helper(); return dial(b.t, b.addr) }
func (b *bed) direct() *raw { b.t.Helper(); return dial(b.t, b.server.Addr) }

// keyed holds the keys and values of a map: key, value, key, value….
type keyed []any

// encode makes a frame.
func encode(t testing.TB, typ wire.Type, sync uint64, header keyed, body keyed) []byte {
	t.Helper()
	b := []byte{0xce, 0, 0, 0, 0}
	b = msgp.AppendMapHeader(b, uint32(2+len(header)/2))
	b = msgp.AppendUint64(append(b, 0), uint64(typ))
	b = msgp.AppendUint64(append(b, 1), sync)
	b = appendPairs(t, b, header)
	b = msgp.AppendMapHeader(b, uint32(len(body)/2))
	b = appendPairs(t, b, body)
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-5))
	return b
}

func appendPairs(t testing.TB, b []byte, pairs keyed) []byte {
	t.Helper()
	for _, v := range pairs {
		var err error
		if b, err = msgp.AppendIntf(b, unsigned(v)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// unsigned converts integers that are not negative to the unsigned form, which the server requires.
func unsigned(v any) any {
	switch v := v.(type) {
	case int:
		if v >= 0 {
			return uint64(v)
		}
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = unsigned(v[i])
		}
		return list
	case map[string]any:
		m := map[string]any{}
		for k := range v {
			m[k] = unsigned(v[k])
		}
		return m
	}
	return v
}

// answer is a reply.
type answer struct {
	code   wire.Type
	sync   uint64
	schema uint64
	data   any
	text   string // text of an error
	frame  []byte
}

func (r *raw) send(typ wire.Type, body ...any) uint64 {
	r.t.Helper()
	r.sync++
	r.write(encode(r.t, typ, r.sync, nil, body))
	return r.sync
}

func (r *raw) write(b []byte) {
	r.t.Helper()
	if _, err := r.c.Write(b); err != nil {
		r.t.Fatal(err)
	}
}

func (r *raw) read() answer {
	r.t.Helper()
	a, err := r.tryRead()
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

func (r *raw) tryRead() (a answer, err error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r.c, head); err != nil {
		return a, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[1:]))
	if _, err := io.ReadFull(r.c, b); err != nil {
		return a, err
	}
	a.frame = append(head, b...)
	var h wire.Header
	if err := h.Parse(b); err != nil {
		return a, err
	}
	a.code, a.sync, a.schema = h.Type, h.Sync, h.Schema
	var body wire.Body
	if err := body.Parse(b, h.Map.End()); err != nil {
		return a, err
	}
	if body.Data.Len > 0 {
		a.data, _, err = msgp.ReadIntfBytes(body.Data.Of(b))
	}
	if body.Error.Len > 0 {
		text, _ := wire.Text(body.Error.Of(b))
		a.text = string(text)
	}
	return a, err
}

func (r *raw) do(typ wire.Type, body ...any) answer {
	r.t.Helper()
	sync := r.send(typ, body...)
	a := r.read()
	if a.sync != sync {
		r.t.Fatalf("reply to %d, not to %d", a.sync, sync)
	}
	r.last = a
	return a
}

// must is do for requests that have to succeed.
func (r *raw) must(typ wire.Type, body ...any) any {
	r.t.Helper()
	a := r.do(typ, body...)
	if a.code != wire.OK {
		r.t.Fatalf("error %#x: %s", a.code, a.text)
	}
	return a.data
}

const (
	docs  = 600
	plain = 601
	kept  = 602
)

func document(i int) string {
	return fmt.Sprintf(`{"subscriber":"79%09d","tariff":"unlimited","services":[%s]}`, i, strings.Repeat(`{"name":"roaming","state":"active"},`, 20))
}

// selectOne returns the tuple with that key.
func (r *raw) selectOne(space, key any) []any {
	r.t.Helper()
	list := r.must(wire.Select, 0x10, space, 0x11, 0, 0x12, 10, 0x13, 0, 0x14, 0, 0x20, []any{key}).([]any)
	if len(list) != 1 {
		r.t.Fatalf("%d tuples with key %v", len(list), key)
	}
	return list[0].([]any)
}

func sealed(v any) bool {
	switch v := v.(type) {
	case string:
		return envelope.IsSealed([]byte(v))
	case []byte:
		return envelope.IsSealed(v)
	}
	return false
}

// partsOf holds a session whose pumps do not run, and no server: the test passes requests and replies to the session.
type partsOf struct {
	t *testing.T
	g *Gateway
	s *session

	server, client taker         // receive the frames that the session sends
	replies        *memory.Share // of a budget of 1 MiB
}

// taker is a connection that parses the frames written to it and queues them.
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

// moved changes the version of the schema that the gateway has read.
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

// sends submits a client's request with a stamp (0: none), and expects it at the server.
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
