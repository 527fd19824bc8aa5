package mongo

import (
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.mongodb.org/mongo-driver/v2/bson"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// This file tests rules of MongoDB's protocol for proxies that wire_test.go does not cover.

// A client that offered nothing is never told of compression, neither when it polls nor in the stream of
// replies to an awaitable hello.
func TestNothingShownInPollsAndStreams(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	first := raw.run(plain, hello())
	version := first.doc.Lookup("topologyVersion").Document()
	await := append(hello(), bson.E{Key: "topologyVersion", Value: version}, bson.E{Key: "maxAwaitTimeMS", Value: 100})
	check := func(a answer) {
		t.Helper()
		if _, err := a.doc.LookupErr("compression"); err == nil || !a.ok() {
			t.Errorf("the client sees %v", a.doc)
		}
	}
	check(raw.run(plain, hello()))
	check(raw.run(plain, await))
	id := raw.send(plain, uint32(wire.ExhaustAllowed), await)
	for range 3 {
		a := raw.receive()
		if a.header.ResponseTo != id {
			t.Fatalf("a reply to %d, not to %d", a.header.ResponseTo, id)
		}
		check(a)
		id = a.header.RequestID
	}
	if _, replies := tap.take(); len(replies) < 6 || !bytes.Contains(replies[2].bytes, []byte("topologyVersion")) {
		t.Errorf("the server sent %d replies", len(replies))
	}
}

// A rewritten hello has a correct checksum, and so has its reply.
func TestChecksumOfHello(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.last++
	raw.write(opMsg(raw.last, uint32(wire.ChecksumPresent), hello("zlib")))
	a := raw.receive() // checks the checksum
	if !a.ok() || a.flags&uint32(wire.ChecksumPresent) == 0 || strings.Join(a.compression(), " ") != "zlib" {
		t.Errorf("flags %x, %v", a.flags, a.doc)
	}
}

// The gateway compresses to one zstd frame that contains its size, with nothing after it: PyMongo refuses
// anything else.
func TestOneFrameWithItsSize(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withSnappy) // so that replies are compressed again
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("zstd"))
	id := raw.send(wire.Zstd, 0, command("find", "users"))
	m, err := raw.in.next()
	if err != nil || m.compressor != wire.Zstd || m.header.ResponseTo != id {
		t.Fatalf("%+v, %v", m.header, err)
	}
	frame := m.received[wire.CompressedHeaderLen:]
	var h zstd.Header
	if err := h.Decode(frame); err != nil || !h.HasFCS || int(h.FrameContentSize) != m.header.Length-wire.HeaderLen {
		t.Errorf("%+v, %v for %d bytes", h, err, m.header.Length-wire.HeaderLen)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.DecodeAll(frame, make([]byte, 0, h.FrameContentSize)); err != nil {
		t.Error(err)
	}
}

// frameOf returns a message as an OP_COMPRESSED with a payload made by the test, in forms that drivers use
// and the gateway doesn't.
func frameOf(message []byte, payload []byte, id wire.CompressorID) []byte {
	h, err := wire.ParseHeader(message)
	if err != nil {
		panic(err)
	}
	b := append(wire.AppendCompressed(nil, h, id), payload...)
	wire.PutLength(b)
	return b
}

func zstdOf(t *testing.T, body []byte, o ...zstd.EOption) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, o...)
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(body, nil)
}

// Any form of zstd that a client sends gets a reply or ends the connection, and only messages of the declared
// size reach the server.
func TestFormsOfZstd(t *testing.T) {
	tap := taped(t)
	request := opMsg(7, 0, command("find", "users", bson.E{Key: "comment", Value: strings.Repeat("abc", 500)}))
	body := request[wire.HeaderLen:]
	var stream bytes.Buffer
	w, err := zstd.NewWriter(&stream)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(body[:100])
	_ = w.Flush()
	_, _ = w.Write(body[100:])
	_ = w.Close()
	for _, c := range []struct {
		name    string
		payload []byte
		valid   bool
	}{
		{"with its checksum", zstdOf(t, body, zstd.WithEncoderCRC(true)), true},
		{"without its size", stream.Bytes(), true},
		{"two frames", append(zstdOf(t, body[:200]), zstdOf(t, body[200:])...), false},
		{"an empty frame behind", append(zstdOf(t, body), zstdOf(t, nil, zstd.WithZeroFrames(true))...), false},
		{"a skippable frame before", append([]byte("\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"), zstdOf(t, body)...), false},
		{"a skippable frame behind", append(zstdOf(t, body), "\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"...), false},
		{"nothing", nil, false},
		{"half of it", zstdOf(t, body)[:20], false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t, tap.addr, withZstd)
			raw := dialRaw(t, s.addr)
			raw.run(plain, hello("zstd"))
			tap.take()
			raw.write(frameOf(request, c.payload, wire.Zstd))
			if !c.valid {
				expectClosed(t, s, raw, "corrupt")
				if requests, _ := tap.take(); len(requests) > 0 {
					t.Error("it reached the server")
				}
				return
			}
			if a := raw.receive(); !a.ok() || a.header.ResponseTo != 7 {
				t.Errorf("%+v", a)
			}
			requests, _ := tap.take()
			opened, err := raw.decompress(&message{received: requests[0].bytes, header: wire.Header{Length: len(request), RequestID: 7, OpCode: wire.OpMsg}, compressor: requests[0].came})
			if err != nil || !bytes.Equal(opened, request) {
				t.Errorf("the server got another request: %v", err)
			}
		})
	}
}

// Compressor 0 does not compress. Its messages are accepted, and the replies are plain.
func TestNoop(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, nil)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello())
	tap.take()
	a := raw.run(wire.Noop, command("find", "users"))
	if requests, _ := tap.take(); !a.ok() || a.came != plain || requests[0].came != plain {
		t.Errorf("%+v, upstream as %d", a.header, requests[0].came)
	}
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

// Drivers choose request IDs freely: two requests in flight may have the same one.
func TestSameNumberTwice(t *testing.T) {
	tap := taped(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("zstd"))
	find := opMsg(9, 0, command("find", "users"))
	raw.write(append(append(bytes.Clone(find), raw.compress(wire.Zstd, find)...), opMsg(9, 0, command("ping", 1))...))
	for i, want := range []wire.CompressorID{plain, wire.Zstd, plain} {
		if a := raw.receive(); !a.ok() || a.header.ResponseTo != 9 || a.came != want {
			t.Errorf("reply %d: %+v, came as %d", i, a.header, a.came)
		}
	}
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
