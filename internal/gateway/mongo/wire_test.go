package mongo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// rawClient is a client that sends and receives single messages.
type rawClient struct {
	t    testing.TB
	conn net.Conn
	in   reader
	last int32
	*compression
}

func dialRaw(t testing.TB, addr string) *rawClient {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	return &rawClient{t: t, conn: c, in: reader{Inbound: gateway.Inbound{Conn: c, Ctx: context.Background()}}, compression: compressionBy(t, nil)}
}

// opMsg returns an OP_MSG with only a body.
func opMsg(id int32, flags uint32, doc bson.D) []byte {
	b := wire.AppendHeader(nil, wire.Header{RequestID: id, OpCode: wire.OpMsg})
	b = binary.LittleEndian.AppendUint32(b, flags)
	body, err := bson.Marshal(doc)
	if err != nil {
		panic(err)
	}
	b = append(append(b, 0), body...)
	if flags&uint32(wire.ChecksumPresent) != 0 {
		b = append(b, 0, 0, 0, 0)
		wire.PutLength(b)
		wire.PutChecksum(b)
	}
	wire.PutLength(b)
	return b
}

func opQuery(id int32, doc bson.D) []byte {
	b := wire.AppendHeader(nil, wire.Header{RequestID: id, OpCode: wire.OpQuery})
	b = append(b, 0, 0, 0, 0)
	b = append(b, "admin.$cmd\x00"...)
	b = append(b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff)
	body, _ := bson.Marshal(doc)
	b = append(b, body...)
	wire.PutLength(b)
	return b
}

func (c *rawClient) write(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// send sends a command, compressed by id, and returns its request ID.
func (c *rawClient) send(id wire.CompressorID, flags uint32, doc bson.D) int32 {
	c.t.Helper()
	c.last++
	b := opMsg(c.last, flags, doc)
	if id != plain {
		b = c.compress(id, b)
	}
	c.write(b)
	return c.last
}

func (c *rawClient) compress(id wire.CompressorID, b []byte) []byte {
	h, _ := wire.ParseHeader(b)
	if id == wire.Noop {
		out := append(wire.AppendCompressed(nil, h, id), b[wire.HeaderLen:]...)
		wire.PutLength(out)
		return out
	}
	return c.compression.compress(b, h, id, 0)
}

// answer is a reply as a driver receives it.
type answer struct {
	came   wire.CompressorID
	header wire.Header
	flags  uint32
	doc    bson.Raw
	size   int // on the wire
}

func (c *rawClient) receive() answer {
	c.t.Helper()
	a, err := c.tryReceive()
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

func (c *rawClient) tryReceive() (a answer, err error) {
	m, err := c.in.next()
	if err != nil {
		return a, err
	}
	body := m.received
	a.came, a.header, a.size = m.compressor, m.header, len(m.received)
	if m.compressor != plain {
		if body, err = c.decompress(&m); err != nil {
			return a, err
		}
	}
	var at wire.Span
	if m.header.OpCode == wire.OpReply {
		at, err = wire.ParseReply(body)
	} else {
		var msg wire.Msg
		err = msg.Parse(body)
		at, a.flags = msg.Body, uint32(msg.Flags)
	}
	a.doc = bson.Raw(bytes.Clone(at.Of(body)))
	return a, err
}

// run sends a command and returns its reply.
func (c *rawClient) run(id wire.CompressorID, doc bson.D) answer {
	c.t.Helper()
	sent := c.send(id, 0, doc)
	a := c.receive()
	if a.header.ResponseTo != sent {
		c.t.Fatalf("a reply to %d, not to %d", a.header.ResponseTo, sent)
	}
	return a
}

func command(name string, value any, more ...bson.E) bson.D {
	return append(bson.D{{Key: name, Value: value}, {Key: "$db", Value: "shop"}}, more...)
}

func hello(compression ...string) bson.D {
	d := command("hello", 1)
	if len(compression) > 0 {
		d = append(d, bson.E{Key: "compression", Value: compression})
	}
	return d
}

func (a answer) compression() []string {
	var d struct{ Compression []string }
	_ = bson.Unmarshal(a.doc, &d)
	return d.Compression
}

func (a answer) ok() bool { n, _ := a.doc.Lookup("ok").AsFloat64OK(); return n == 1 }

// taped starts a tap in front of a mongod with documents in shop.users. With -short the server is a recording
// of one: the test may send only recorded requests and can't use the server directly.
func taped(t *testing.T) *tap {
	t.Helper()
	if testing.Short() {
		return startTap(t, startRecorded(t))
	}
	server, tap := between(t)
	if *recordAnew {
		return startTap(t, startRecorder(t, server.Addr))
	}
	return tap
}

// between puts documents into shop.users of the standalone server, and a tap in front of it.
func between(t *testing.T) (*mongotest.Server, *tap) {
	t.Helper()
	server := standalone(t)
	return server, betweenAnd(t, server)
}

// betweenAnd does the same with another server.
func betweenAnd(t *testing.T, server *mongotest.Server) *tap {
	t.Helper()
	coll := server.Client(t).Database("shop").Collection("users")
	if _, err := coll.InsertMany(t.Context(), users(0, 100)); err != nil {
		t.Fatal(err)
	}
	return startTap(t, server.Addr)
}

// withLess returns a shared server that supports only the compressor has, or none if has is "disabled", and
// logins by PLAIN.
func withLess(t testing.TB, has string) *mongotest.Server {
	t.Helper()
	return testenv.Shared(t, "mongod "+has, func(t testing.TB) *mongotest.Server {
		return mongotest.Start(t, mongotest.Config{Args: []string{
			"--networkMessageCompressors", has, "--setParameter", "authenticationMechanisms=PLAIN,SCRAM-SHA-256",
		}})
	})
}

func TestNegotiation(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	for _, c := range []struct {
		name    string
		request func(int32) []byte
		want    []string
	}{
		{"hello, nothing offered", func(id int32) []byte { return opMsg(id, 0, hello()) }, nil},
		{"hello, all offered", func(id int32) []byte { return opMsg(id, 0, hello("zlib", "lzma", "snappy", "zlib", "zstd")) }, []string{"zlib", "snappy", "zstd"}},
		{"hello, nothing that we have", func(id int32) []byte { return opMsg(id, 0, hello("lzma")) }, nil},
		{"old isMaster", func(id int32) []byte { return opQuery(id, bson.D{{Key: "isMaster", Value: 1}}) }, nil},
		{"old ismaster with an offer", func(id int32) []byte {
			return opQuery(id, bson.D{{Key: "ismaster", Value: 1}, {Key: "compression", Value: bson.A{"snappy"}}})
		}, []string{"snappy"}},
		{"within $query", func(id int32) []byte {
			return opQuery(id, bson.D{{Key: "$query", Value: bson.D{{Key: "ismaster", Value: 1}}}, {Key: "$readPreference", Value: bson.D{{Key: "mode", Value: "nearest"}}}})
		}, nil},
		{"with a checksum", func(id int32) []byte { return opMsg(id, uint32(wire.ChecksumPresent), hello("zstd")) }, []string{"zstd"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tap.take()
			raw := dialRaw(t, s.addr)
			raw.write(c.request(77))
			a := raw.receive()
			if !a.ok() || a.header.ResponseTo != 77 || a.came != plain {
				t.Fatalf("%+v", a)
			}
			if got := a.compression(); !slices.Equal(got, c.want) {
				t.Errorf("the client sees %v, not %v", got, c.want)
			}
			if _, err := a.doc.LookupErr("compression"); c.want == nil && err == nil {
				t.Error("a client that offered nothing sees compression")
			}
			requests, replies := tap.take()
			if len(requests) != 1 || !bytes.Contains(requests[0].bytes, []byte("compression\x00")) || requests[0].header().RequestID != 77 {
				t.Fatalf("upstream got %q", requests)
			}
			for _, name := range []string{"zstd", "snappy"} {
				if !bytes.Contains(requests[0].bytes, []byte(name)) || !bytes.Contains(replies[0].bytes, []byte(name)) {
					t.Errorf("%s was not offered and taken", name)
				}
			}
			if bytes.Contains(requests[0].bytes, []byte("zlib")) {
				t.Error("zlib was offered, which no rule names")
			}
			// A later handshake does not change the negotiated compressors.
			raw.last = 100
			raw.run(plain, hello())
			a = raw.run(plain, command("find", "users"))
			requests, replies = tap.take()
			if got := len(replies) - 1; requests[got].came != wire.Zstd || replies[got].came != wire.Zstd || a.came != plain {
				t.Errorf("find went out as %d and came back as %d, %d for the client", requests[got].came, replies[got].came, a.came)
			}
		})
	}
}

func TestServerWithLess(t *testing.T) {
	for _, c := range []struct {
		has  string
		want wire.CompressorID
	}{{"disabled", plain}, {"snappy", wire.Snappy}, {"zlib", plain}} {
		t.Run(c.has, func(t *testing.T) {
			tap := betweenAnd(t, withLess(t, c.has))
			s := serve(t, tap.addr, withZstd)
			raw := dialRaw(t, s.addr)
			a := raw.run(plain, hello("zstd", "snappy"))
			if got := a.compression(); !slices.Equal(got, []string{"zstd", "snappy"}) {
				t.Errorf("the client may use %v", got)
			}
			tap.take()
			a = raw.run(wire.Zstd, command("find", "users"))
			requests, replies := tap.take()
			if requests[0].came != c.want || replies[0].came != c.want {
				t.Errorf("compressed by %d and %d, want %d", requests[0].came, replies[0].came, c.want)
			}
			if a.came != wire.Zstd || !a.ok() {
				t.Errorf("the client's reply came as %d: %v", a.came, a.doc)
			}
		})
	}
}

// Nothing is compressed before the server has agreed.
func TestNothingBeforeHello(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	tap.take()
	raw := dialRaw(t, s.addr)
	if a := raw.run(plain, command("find", "users")); !a.ok() {
		t.Fatal(a.doc)
	}
	if requests, _ := tap.take(); requests[0].came != plain {
		t.Error("compressed without negotiation")
	}
}

func TestNeverCompressed(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd, func(c *Config) { c.Policy.Force = true })
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("zstd"))
	for _, name := range []string{"hello", "isMaster", "ismaster", "saslStart", "saslContinue", "getnonce", "authenticate", "createUser", "updateUser", "copydbSaslStart", "copydbgetnonce", "copydb", "setParameter"} {
		tap.take()
		a := raw.run(wire.Zstd, command(name, 1, bson.E{Key: "filler", Value: strings.Repeat("x", 2000)}))
		requests, replies := tap.take()
		if requests[0].came != plain || replies[0].came != plain || a.came != plain {
			t.Errorf("%s went out as %d, came back as %d and %d", name, requests[0].came, replies[0].came, a.came)
		}
	}
	// The command may come after a document sequence.
	raw.last++
	doc, _ := bson.Marshal(command("saslStart", 1))
	b := wire.AppendHeader(nil, wire.Header{RequestID: raw.last, OpCode: wire.OpMsg})
	b = append(b, 0, 0, 0, 0, 1, 7, 0, 0, 0)
	b = append(append(b, "ab\x00\x00"...), doc...)
	wire.PutLength(b)
	raw.write(raw.compress(wire.Zstd, b))
	raw.receive()
	if requests, _ := tap.take(); requests[0].came != plain {
		t.Error("saslStart behind a section was compressed")
	}
}

func TestMirror(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("snappy"))
	last := func(doc bson.D, id wire.CompressorID) (request, reply frame, a answer) {
		t.Helper()
		tap.take()
		a = raw.run(id, doc)
		requests, replies := tap.take()
		return requests[0], replies[0], a
	}
	many := command("find", "users")
	one := command("find", "users", bson.E{Key: "filter", Value: bson.D{{Key: "_id", Value: 1}}}, bson.E{Key: "limit", Value: 1}, bson.E{Key: "projection", Value: bson.D{{Key: "active", Value: 1}}})
	request, reply, a := last(many, plain)
	if request.came != wire.Zstd || reply.came != wire.Zstd || a.came != plain {
		t.Errorf("a large find: %d %d %d", request.came, reply.came, a.came)
	}
	if _, reply, a = last(many, wire.Snappy); reply.came != wire.Zstd || a.came != wire.Snappy {
		t.Errorf("a large find, the client's compressed: %d %d", reply.came, a.came)
	}
	for range 3 { // until the gateway knows that the replies are small
		request, reply, a = last(one, wire.Snappy)
	}
	if request.came != plain || reply.came != plain || a.came != plain {
		t.Errorf("a small find: %d %d %d", request.came, reply.came, a.came)
	}
	if request, reply, _ = last(command("ping", 1), wire.Snappy); request.came != plain || reply.came != plain {
		t.Errorf("a ping: %d %d", request.came, reply.came)
	}
	if request, reply, _ = last(many, plain); request.came != wire.Zstd || reply.came != wire.Zstd {
		t.Errorf("a large find was taken for a small one")
	}
	insert := command("insert", "copies", bson.E{Key: "documents", Value: users(1000, 50)})
	if request, reply, _ = last(insert, plain); request.came != wire.Zstd || reply.came != wire.Zstd {
		t.Errorf("a large insert: %d %d", request.came, reply.came)
	}
	noise := make([]byte, 20000)
	for i := range noise {
		noise[i] = byte(uint32(i*i*2654435761) >> 13)
	}
	noise = codecNoise(noise)
	insert = command("insert", "copies", bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "v", Value: noise}}}})
	if request, _, _ = last(insert, wire.Snappy); request.came != plain {
		t.Errorf("noise was compressed, to %d bytes", len(request.bytes))
	}
}

// codecNoise fills b with incompressible bytes.
func codecNoise(b []byte) []byte {
	state := uint64(88172645463325252)
	for i := range b {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		b[i] = byte(state)
	}
	return b
}

func TestChecksum(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello())
	raw.last++
	good := opMsg(raw.last, uint32(wire.ChecksumPresent), command("find", "users"))
	raw.write(good)
	a := raw.receive()
	if !a.ok() || a.flags&uint32(wire.ChecksumPresent) == 0 {
		t.Fatalf("flags %x, %v", a.flags, a.doc)
	}
	requests, _ := tap.take()
	sent := requests[len(requests)-1]
	opened, err := raw.decompress(&message{received: sent.bytes, header: wire.Header{Length: len(good), RequestID: raw.last, OpCode: wire.OpMsg}, compressor: sent.came})
	if err != nil || !bytes.Equal(opened, good) {
		t.Errorf("the server got another message: %v\n%x\n%x", err, opened, good)
	}
	good[30] ^= 1
	raw.write(good)
	expectClosed(t, s, raw, "checksum")
}

// Requests without replies, and several requests at a time.
func TestPipeline(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello())
	var ids []int32
	for i := range 50 {
		raw.send(plain, uint32(wire.MoreToCome), command("insert", "silent", bson.E{Key: "documents", Value: users(i*10, 10)},
			bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: 0}}}))
		ids = append(ids, raw.send(plain, 0, command("find", "users", bson.E{Key: "limit", Value: i + 1})), raw.send(plain, 0, command("ping", 1)))
	}
	for i, id := range ids {
		a := raw.receive()
		if a.header.ResponseTo != id {
			t.Fatalf("reply %d is to %d, not %d", i, a.header.ResponseTo, id)
		}
	}
	a := raw.run(plain, command("count", "silent"))
	if n, _ := a.doc.Lookup("n").AsInt64OK(); n != 500 {
		t.Errorf("%d documents", n)
	}
}

// Streams of replies to one request, hellos and batches of a cursor, pass with one compressor, without
// further requests.
func TestExhaust(t *testing.T) {
	server, tap := between(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	first := raw.run(plain, hello("zstd"))
	version := first.doc.Lookup("topologyVersion").Document()
	await := append(hello(), bson.E{Key: "topologyVersion", Value: version}, bson.E{Key: "maxAwaitTimeMS", Value: 200})
	id := raw.send(plain, uint32(wire.ExhaustAllowed), await)
	for range 3 {
		a := raw.receive()
		if a.header.ResponseTo != id || a.flags&uint32(wire.MoreToCome) == 0 || !a.ok() {
			t.Fatalf("in the stream of hellos: %+v", a)
		}
		if !slices.Equal(a.compression(), []string{"zstd"}) {
			t.Errorf("in the stream compression is %v", a.compression())
		}
		id = a.header.RequestID
	}
	raw = dialRaw(t, s.addr)
	raw.run(plain, hello("snappy"))
	opened := raw.run(wire.Snappy, command("find", "users", bson.E{Key: "batchSize", Value: 2}))
	cursor := opened.doc.Lookup("cursor", "id").Int64()
	tap.take()
	id = raw.send(wire.Snappy, uint32(wire.ExhaustAllowed), command("getMore", cursor, bson.E{Key: "collection", Value: "users"}, bson.E{Key: "batchSize", Value: 10}))
	got := 2
	for more := true; more; {
		a := raw.receive()
		if a.header.ResponseTo != id || a.came != wire.Snappy {
			t.Fatalf("in the stream of batches: %+v", a)
		}
		batch, _ := a.doc.Lookup("cursor", "nextBatch").Array().Values()
		got += len(batch)
		id, more = a.header.RequestID, a.flags&uint32(wire.MoreToCome) != 0
	}
	if got != 100 {
		t.Errorf("%d documents came", got)
	}
	requests, replies := tap.take()
	compressed := 0 // the stream of hellos goes on, uncompressed
	for _, r := range replies {
		if r.came == wire.Zstd {
			compressed++
		}
	}
	if len(requests) != 1 || compressed < 9 {
		t.Errorf("%d requests, %d replies, %d of them compressed", len(requests), len(replies), compressed)
	}
	if sent, _ := server.Compressed(t, "zstd"); sent.In == 0 {
		t.Error("mongod compressed nothing")
	}
}

// The handshake's other fields arrive unchanged.
func TestHelloKeepsTheRest(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	auth := bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: "SCRAM-SHA-256"}, {Key: "payload", Value: []byte("n,,n=u,r=compression")}, {Key: "db", Value: "admin"}}
	sent := append(hello("snappy"), bson.E{Key: "speculativeAuthenticate", Value: auth}, bson.E{Key: "client", Value: bson.D{{Key: "driver", Value: bson.D{{Key: "name", Value: "raw"}}}}})
	tap.take()
	raw := dialRaw(t, s.addr)
	raw.run(plain, sent)
	requests, _ := tap.take()
	var msg wire.Msg
	if err := msg.Parse(requests[0].bytes); err != nil {
		t.Fatalf("%v: %q", err, requests[0].bytes)
	}
	var got bson.D
	if err := bson.Unmarshal(msg.Body.Of(requests[0].bytes), &got); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i, e := range got {
		keys = append(keys, e.Key)
		if e.Key == "compression" {
			continue
		}
		want, _ := bson.Marshal(bson.D{sent[i]})
		if have, _ := bson.Marshal(bson.D{e}); !bytes.Equal(want, have) {
			t.Errorf("%s was changed to %v", e.Key, e.Value)
		}
	}
	if !slices.Equal(keys, []string{"hello", "$db", "compression", "speculativeAuthenticate", "client"}) {
		t.Errorf("the server got %v", keys)
	}
}

// expectClosed checks that the gateway closed the connection and logged that once.
func expectClosed(t *testing.T, s *served, c *rawClient, class string) {
	t.Helper()
	if a, err := c.tryReceive(); err == nil {
		t.Fatalf("an answer came: %v", a.doc)
	} else if errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
		t.Fatalf("the connection was not closed: %v", err)
	}
	testenv.Eventually(t, "an error is counted", func() bool { return s.stats.Snapshot().Errors[class] > 0 })
	if got := s.stats.Snapshot().Errors; got[class] != 1 || len(got) != 1 {
		t.Errorf("errors counted: %v, want one %s", got, class)
	}
	if n := strings.Count(s.log.String(), "disconnected"); n != 1 {
		t.Errorf("%d lines about it in the log:\n%s", n, s.log)
	}
}

// A server sends nonsense, or compresses replies to plain requests.
func TestBadServer(t *testing.T) {
	l := listen(t)
	answers := make(chan []byte, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4096)
				if n, _ := c.Read(buf); n == 0 || bytes.Contains(buf[:n], []byte("isMaster")) {
					return // the gateway's own hello
				}
				_, _ = c.Write(<-answers)
				_, _ = c.Read(buf)
			}()
		}
	}()
	c := dialRaw(t, l.Addr().String())
	reply := opMsg(9, 0, bson.D{{Key: "ok", Value: 1}, {Key: "filler", Value: strings.Repeat("abc", 500)}})
	binary.LittleEndian.PutUint32(reply[8:], 1)
	nested := c.compress(wire.Noop, c.compress(wire.Zstd, reply))
	for class, bad := range map[string][]byte{
		"upstream_nested":    nested,
		"upstream_malformed": codecNoise(make([]byte, 1000)),
		"upstream_opcode":    append(bytes.Clone(reply[:12]), "xxxxxxxxxxxxxxxx"...),
	} {
		t.Run(class, func(t *testing.T) {
			s := serve(t, l.Addr().String(), withZstd)
			answers <- bad
			raw := dialRaw(t, s.addr)
			raw.send(plain, 0, command("ping", 1))
			expectClosed(t, s, raw, class)
		})
	}
	t.Run("compressed unasked", func(t *testing.T) {
		s := serve(t, l.Addr().String(), withZstd)
		answers <- c.compress(wire.Zstd, reply)
		raw := dialRaw(t, s.addr)
		if a := raw.run(plain, command("ping", 1)); a.came != plain || !a.ok() {
			t.Errorf("%+v", a)
		}
	})
}

// A message of the largest size passes in both directions, and its memory is given back.
func TestLargestMessage(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withSnappy)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("snappy"))
	insert := opMsg(1, 0, command("insert", "large"))
	at := len(insert)
	insert = append(insert, 1, 0, 0, 0, 0)
	insert = append(insert, "documents\x00"...)
	for i, size := range []int{15 << 20, 15 << 20, 0} {
		if size == 0 {
			size = wire.MaxMessage - len(insert) - 22
		}
		doc, _ := bson.Marshal(bson.D{{Key: "_id", Value: int32(i)}, {Key: "v", Value: strings.Repeat("0123456789abcdef", size/16+1)[:size]}})
		insert = append(insert, doc...)
	}
	binary.LittleEndian.PutUint32(insert[at+1:], uint32(len(insert)-at-1))
	wire.PutLength(insert)
	b := insert
	if len(b) != wire.MaxMessage {
		t.Fatalf("the test made %d bytes", len(b))
	}
	raw.write(b)
	if a := raw.receive(); !a.ok() {
		t.Fatalf("%.300s", a.doc)
	}
	for range 2 {
		if a := raw.run(wire.Snappy, command("find", "large")); a.header.Length < 15<<20 {
			t.Errorf("%d bytes came back", a.header.Length)
		}
	}
	_ = gateway.CloseWrite(raw.conn)
}
