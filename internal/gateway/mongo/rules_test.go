package mongo

import (
	"bytes"
	"encoding/binary"
	"net"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.mongodb.org/mongo-driver/v2/bson"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// This file has what MongoDB's protocol asks of whoever stands in between, and what raw_test
// does not look at.

// A client that offered nothing never hears of compression: not when it polls, and not in the
// stream of replies to an awaitable hello.
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

// A hello that was changed has a checksum that is right again, and so has its reply.
func TestChecksumOfHello(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withZstd)
	raw := dialRaw(t, s.addr)
	raw.last++
	raw.write(opMsg(raw.last, uint32(wire.ChecksumPresent), hello("zlib")))
	a := raw.receive() // which checks the checksum
	if !a.ok() || a.flags&uint32(wire.ChecksumPresent) == 0 || strings.Join(a.compression(), " ") != "zlib" {
		t.Errorf("flags %x, %v", a.flags, a.doc)
	}
}

// What the gateway compresses is one zstd frame that says its size, with nothing behind it:
// PyMongo refuses anything else.
func TestOneFrameWithItsSize(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, withSnappy) // so that replies are compressed again
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello("zstd"))
	id := raw.send(wire.Zstd, 0, command("find", "users"))
	m, err := raw.in.next()
	if err != nil || m.came != wire.Zstd || m.header.ResponseTo != id {
		t.Fatalf("%+v, %v", m.header, err)
	}
	frame := m.bytes[wire.CompressedHeaderLen:]
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

// frameOf compresses the body of a message by means that drivers have and we don't.
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

// Whatever form of zstd a client sends is answered, or ends the connection: and what reaches
// the server is a message of the declared size.
func TestFormsOfZstd(t *testing.T) {
	_, tap := between(t)
	message := opMsg(7, 0, command("find", "users", bson.E{Key: "comment", Value: strings.Repeat("abc", 500)}))
	body := message[wire.HeaderLen:]
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
			raw.write(frameOf(message, c.payload, wire.Zstd))
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
			opened, err := raw.g.open(requests[0].bytes, wire.Compressed{Header: wire.Header{Length: len(message), RequestID: 7, OpCode: wire.OpMsg}, Compressor: requests[0].came})
			if err != nil || !bytes.Equal(opened, message) {
				t.Errorf("the server got another message: %v", err)
			}
		})
	}
}

// Compressor 0 is one that does nothing: it is understood, and answered plainly.
func TestNoop(t *testing.T) {
	_, tap := between(t)
	s := serve(t, tap.addr, nil)
	raw := dialRaw(t, s.addr)
	raw.run(plain, hello())
	tap.take()
	a := raw.run(wire.Noop, command("find", "users"))
	if requests, _ := tap.take(); !a.ok() || a.came != plain || requests[0].came != plain {
		t.Errorf("%+v, upstream as %d", a.header, requests[0].came)
	}
}

// Documents of users arrive as they were sent, byte by byte: also those that look like a
// handshake, repeat keys, or hold every type that there is.
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

// opened is a frame's message without compression.
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
	body, err := raw.g.open(f.bytes, c)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Drivers number their requests as they like: two in flight may have the same number.
func TestSameNumberTwice(t *testing.T) {
	_, tap := between(t)
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

// Many requests that want no reply, each compressed, leave the connection in step.
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

// Bytes that no driver sends, beside those of TestBadInput. None of them may reach the server
// or harm others.
func TestMoreBadInput(t *testing.T) {
	_, tap := between(t)
	c := dialRaw(t, tap.addr) // for its codecs
	find := opMsg(7, 0, command("find", "users", bson.E{Key: "comment", Value: strings.Repeat("abc", 500)}))
	section := func(kind byte, b ...byte) []byte {
		m := append(bytes.Clone(find), kind)
		m = append(m, b...)
		wire.PutLength(m)
		return m
	}
	int32s := func(n int32) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
	short := func(n int) []byte {
		m := bytes.Clone(find[:n])
		wire.PutLength(m)
		return m
	}
	many := bytes.Clone(find)
	for range 1000 {
		many = append(many, 1, 6, 0, 0, 0, 'a', 0)
	}
	wire.PutLength(many)
	huge := wire.AppendHeader(nil, wire.Header{Length: wire.MaxMessage, RequestID: 1, OpCode: wire.OpCompressed})
	huge = append(append(huge, int32s(int32(wire.OpMsg))...), int32s(1<<31-1)...)
	for _, bad := range []struct {
		name, class string
		bytes       []byte
	}{
		{"no flags", "malformed", short(16)},
		{"half of the flags", "malformed", short(18)},
		{"no section", "malformed", short(20)},
		{"half of a section", "malformed", short(23)},
		{"negative document", "malformed", append(append(bytes.Clone(find[:21]), int32s(-5)...), find[25:]...)},
		{"document of 4 bytes", "malformed", append(append(bytes.Clone(find[:21]), int32s(4)...), find[25:]...)},
		{"document beyond the message", "malformed", append(append(bytes.Clone(find[:21]), int32s(1<<30)...), find[25:]...)},
		{"two bodies", "malformed", section(0, 5, 0, 0, 0, 0)},
		{"negative section", "malformed", section(1, int32s(-1)...)},
		{"huge section", "malformed", section(1, append(int32s(1<<30), "a\x00"...)...)},
		{"section without an end of its name", "malformed", section(1, append(int32s(8), "abcd"...)...)},
		{"section with half a document", "malformed", section(1, append(int32s(9), "a\x00\x09\x00\x00"...)...)},
		{"very many sections", "malformed", many},
		{"sizes at their limits", "too_large", append(huge, 3)},
		{"compressed, nothing in it", "corrupt", frameOf(find[:16], nil, wire.Noop)},
		{"compressed to less than a header", "malformed", append(append(int32s(20), find[4:12]...), append(int32s(int32(wire.OpCompressed)), 0, 0, 0, 0)...)},
		{"compressed reply", "malformed", func() []byte { m := c.compress(wire.Zstd, find); binary.LittleEndian.PutUint32(m[16:], 1); return m }()},
		{"id 254", "compressor", frameOf(find, find[16:], 254)},
		{"id 255", "compressor", frameOf(find, find[16:], 255)},
		{"id 255 around what has no body", "compressor", func() []byte {
			m := frameOf(find, find[16:], 255)
			binary.LittleEndian.PutUint32(m[16:], uint32(wire.OpKillCursors))
			return m
		}()},
		{"snappy with another size", "corrupt", func() []byte { m := c.compress(wire.Snappy, find); m[25] ^= 1; return m }()},
		{"snappy of nothing but a size", "corrupt", frameOf(find, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, wire.Snappy)},
		{"zlib without its end", "corrupt", func() []byte { m := c.compress(wire.Zlib, find); m = m[:len(m)-4]; wire.PutLength(m); return m }()},
		{"zlib with another checksum", "corrupt", func() []byte { m := c.compress(wire.Zlib, find); m[len(m)-1] ^= 1; return m }()},
		{"old query without an end of its name", "malformed", func() []byte {
			m := append(wire.AppendHeader(nil, wire.Header{RequestID: 1, OpCode: wire.OpQuery}), "\x00\x00\x00\x00admin.$cmd"...)
			wire.PutLength(m)
			return m
		}()},
		{"old query without a document", "malformed", func() []byte {
			m := append(wire.AppendHeader(nil, wire.Header{RequestID: 1, OpCode: wire.OpQuery}), "\x00\x00\x00\x00admin.$cmd\x00\x00\x00\x00\x00\x01\x00\x00\x00"...)
			wire.PutLength(m)
			return m
		}()},
		{"no command", "malformed", opMsg(1, 0, bson.D{})},
		{"HTTP", "opcode", []byte("\x40\x00\x00\x00GET / HTTP/1.1\r\nHost: db\r\n\r\n")},
		{"a request of a browser", "too_large", []byte("GET / HTTP/1.1\r\nHost: db\r\n\r\n")},
		{"TLS where there is none", "malformed", []byte("\x16\x03\x01\x80" + strings.Repeat("\x16\x03\x01\x02", 20))},
	} {
		t.Run(bad.name, func(t *testing.T) {
			s := serve(t, tap.addr, withZstd)
			raw := dialRaw(t, s.addr)
			raw.run(plain, hello("zstd", "zlib"))
			tap.take()
			raw.write(bad.bytes)
			_ = raw.conn.(*net.TCPConn).CloseWrite()
			expectClosed(t, s, raw, bad.class)
			if requests, _ := tap.take(); len(requests) > 0 {
				t.Error("it reached the server")
			}
		})
	}
}
