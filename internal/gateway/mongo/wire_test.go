package mongo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
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

// between inserts documents into shop.users of the standalone server, and puts a tap in front of it.
func between(t *testing.T) (*mongotest.Server, *tap) {
	t.Helper()
	server := standalone(t)
	return server, betweenAnd(t, server)
}

// betweenAnd is like between, for the given server.
func betweenAnd(t *testing.T, server *mongotest.Server) *tap {
	t.Helper()
	coll := server.Client(t).Database("shop").Collection("users")
	if _, err := coll.InsertMany(t.Context(), users(0, 100)); err != nil {
		t.Fatal(err)
	}
	return startTap(t, server.Addr)
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

// Requests without replies may stand between several requests in flight.
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

// Documents of users arrive unchanged, byte by byte, even if they look like a handshake, repeat keys, or
// contain all types.
func TestDocumentsAreNotTouched(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("snappy"))
	docs := bson.A{
		bson.D{{Key: "_id", Value: 1}, {Key: "hello", Value: 1}, {Key: "compression", Value: bson.A{"zstd"}}, {Key: "hosts", Value: bson.A{tap.addr}}, {Key: "me", Value: tap.addr}, {Key: "primary", Value: tap.addr}},
		bson.D{{Key: "_id", Value: 2}, {Key: "a", Value: 1}, {Key: "a", Value: 2}, {Key: "", Value: 3}, {Key: "$db", Value: "x"}},
		bson.D{
			{Key: "_id", Value: 3},
			{Key: "f", Value: 1.5},
			{Key: "bin", Value: bson.Binary{Subtype: 0x80, Data: []byte{0, 1}}},
			{Key: "undefined", Value: bson.Undefined{}},
			{Key: "oid", Value: bson.ObjectID{1}},
			{Key: "date", Value: bson.DateTime(-1)},
			{Key: "null", Value: nil},
			{Key: "re", Value: bson.Regex{Pattern: "^a", Options: "i"}},
			{Key: "ptr", Value: bson.DBPointer{DB: "a.b", Pointer: bson.ObjectID{2}}},
			{Key: "js", Value: bson.JavaScript("1")},
			{Key: "sym", Value: bson.Symbol("s")},
			{Key: "scope", Value: bson.CodeWithScope{Code: "1", Scope: bson.D{{Key: "x", Value: 1}}}},
			{Key: "ts", Value: bson.Timestamp{T: 1, I: 2}},
			{Key: "long", Value: int64(1) << 40},
			{Key: "dec", Value: bson.NewDecimal128(1, 2)},
			{Key: "min", Value: bson.MinKey{}},
			{Key: "max", Value: bson.MaxKey{}},
			{Key: "text", Value: "a\x00b"},
		},
	}
	insert := command("insert", "hello", bson.E{Key: "documents", Value: docs})
	tap.take()
	raw.last++
	message := opMsg(raw.last, 0, insert)
	raw.write(raw.compress(wire.Snappy, message))
	if a := raw.receive(); !a.ok() || a.doc.Lookup("n").AsInt64() != 3 {
		t.Fatal(a.doc)
	}
	a := raw.run(wire.Snappy, command("find", "hello", bson.E{Key: "sort", Value: bson.D{{Key: "_id", Value: 1}}}))
	requests, replies := tap.take()
	for i, f := range requests {
		body := opened(t, raw, f)
		if i == 0 && !bytes.Equal(body, message) {
			t.Errorf("the server got\n%x, sent was\n%x", body, message)
		}
	}
	last := opened(t, raw, replies[len(replies)-1])
	if !bytes.HasSuffix(last, a.doc) {
		t.Errorf("the client got\n%x, the server sent\n%x", a.doc, last)
	}
	batch, err := a.doc.Lookup("cursor", "firstBatch").Array().Values()
	if err != nil || len(batch) != len(docs) {
		t.Fatal(len(batch), err)
	}
	for i, d := range docs {
		if want, _ := bson.Marshal(d); !bytes.Equal(batch[i].Document(), want) {
			t.Errorf("document %d came back as %v", i, batch[i])
		}
	}
}

// opened returns the decompressed message of a frame.
func opened(t *testing.T, raw *rawClient, f frame) []byte {
	t.Helper()
	if f.came == plain {
		return f.bytes
	}
	outer := f.header()
	c, err := wire.ParseCompressed(outer, f.bytes)
	if err != nil {
		t.Fatal(err)
	}
	body, err := raw.decompress(&message{received: f.bytes, header: c.Header, compressor: c.Compressor})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Many compressed requests without replies don't get the connection out of step.
func TestSilentStorm(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("snappy"))
	const n = 2000
	for i := range n {
		raw.send(wire.Snappy, uint32(wire.MoreToCome), command("insert", "storm", bson.E{Key: "documents", Value: users(i*3, 3)},
			bson.E{Key: "writeConcern", Value: bson.D{{Key: "w", Value: 0}}}))
		if i%500 == 0 {
			raw.run(wire.Snappy, command("ping", 1))
		}
	}
	if a := raw.run(plain, command("count", "storm")); a.doc.Lookup("n").AsInt64() != 3*n {
		t.Errorf("%v of %d documents", a.doc.Lookup("n"), 3*n)
	}
	if left := s.stats.Snapshot().Errors; len(left) > 0 {
		t.Errorf("errors: %v", left)
	}
}
