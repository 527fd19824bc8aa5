package mongo

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

func TestRecoderGivesTheFormOfTheRequest(t *testing.T) {
	p := newParts(t, withZstd)
	r := replyOf(t, bson.D{{Key: "ok", Value: 1}, manyDocuments})
	for _, client := range []wire.CompressorID{plain, wire.Noop, wire.Snappy, wire.Zlib} {
		out, pooled := p.encodeReply(&exchange{replyCompressor: client}, r)
		h, _ := wire.ParseHeader(out)
		if compressed := h.OpCode == wire.OpCompressed; compressed != (client == wire.Snappy || client == wire.Zlib) {
			t.Errorf("as %d: compressed %v", client, compressed)
		}
		memory.PutBuffer(pooled)
	}
	b := p.compress(r.plain, r.header, wire.Zstd, 0)
	r.received, r.compressor = b, wire.Zstd
	if out, _ := p.encodeReply(&exchange{replyCompressor: wire.Zstd}, r); &out[0] != &b[0] {
		t.Error("a message in the form that the client wants was changed")
	}
}

func TestRecoderLearns(t *testing.T) {
	p := newParts(t, withZstd)
	m := answers(bson.D{{Key: "ok", Value: 1}, manyDocuments})
	rule := p.policy.Load().Rules()[0]
	for range 20 {
		p.pending.push(&exchange{id: 1, replyCompressor: plain, shape: 7, rule: rule, reason: "small"}, nil)
		if err := p.handleReply(m); err != nil {
			t.Fatal(err)
		}
	}
	if f := p.forecasts.predict(7, 0); int(f.bytes) != len(m.received) {
		t.Errorf("%v bytes are expected, not %d", f.bytes, len(m.received))
	}
	if n := p.stats.Snapshot().Rules[0].Left; n != 20 {
		t.Errorf("%d messages left", n)
	}
}

// The reply pump looks up the requests of replies, and lifts the limit on messages after a successful login.
func TestReplyPumpFindsRequests(t *testing.T) {
	p := newParts(t, withZstd)
	p.authGate.Probe = &gateway.AuthProbe{Ask: func(context.Context) (bool, error) { return true, nil }}
	for _, c := range []struct {
		name     string
		reply    bson.D
		stranger bool
	}{
		{"a step", bson.D{{Key: "done", Value: false}, {Key: "ok", Value: 1}}, true},
		{"refused", bson.D{{Key: "ok", Value: 0}}, true},
		{"the end", bson.D{{Key: "done", Value: true}, {Key: "ok", Value: 1}}, false},
	} {
		p.pending.push(&exchange{id: 1, replyCompressor: plain, endsLogin: true}, nil)
		m := answers(c.reply)
		p.client.told.Reset()
		if err := p.handleReply(m); err != nil || !bytes.Equal(p.client.told.Bytes(), m.received) {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := p.authGate.MustAuthenticate(t.Context()); got != c.stranger || p.pending.busy() {
			t.Errorf("%s: a stranger %v, busy %v", c.name, got, p.pending.busy())
		}
	}
	if err := p.handleReply(answers(bson.D{{Key: "ok", Value: 1}})); err != nil { // no request waits for it
		t.Error(err)
	}
	if err := p.handleReply(message{header: wire.Header{OpCode: wire.OpUpdate}, compressor: plain}); !errors.Is(err, errNoReply) {
		t.Errorf("no reply: %v", err)
	}
}

func TestRepliesAreReadAndReplaced(t *testing.T) {
	with := opMsg(3, uint32(wire.ChecksumPresent|wire.MoreToCome), bson.D{{Key: "ok", Value: 1}})
	h, _ := wire.ParseHeader(with)
	r := reply{message: message{received: with, header: h, compressor: plain}, plain: with}
	if err := r.parse(); err != nil || !r.moreToCome || !isOK(r.doc) {
		t.Fatalf("%v, more %v", err, r.moreToCome)
	}
	doc, _ := bson.Marshal(bson.D{{Key: "ok", Value: 0}, {Key: "text", Value: "longer"}})
	out := r.withDocument(doc)
	var m wire.Msg
	if err := m.Parse(out); err != nil || !bytes.Equal(m.Body.Of(out), doc) {
		t.Errorf("replaced: %v", err)
	}
	old := replyTo(wire.Header{RequestID: 1, OpCode: wire.OpQuery}, doc)
	h, _ = wire.ParseHeader(old)
	r.header, r.plain = h, old
	if err := r.parse(); err != nil || r.moreToCome || !bytes.Equal(r.doc, doc) {
		t.Errorf("in the old form: %v", err)
	}
	r.plain = old[:wire.HeaderLen+3]
	if err := r.parse(); err != nil || r.docErr == nil || len(r.doc) > 0 {
		t.Errorf("cut off: %v, %v", err, r.docErr)
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

// A server that sends a message other than a reply is disconnected.
func TestServerSendsNoReply(t *testing.T) {
	server := startScriptedServer(t)
	s := serve(t, server.addr, withZstd)
	server.mu.Lock()
	server.next = opMsg(9, 0, bson.D{{Key: "ok", Value: 1}, {Key: "padding", Value: strings.Repeat("x", 4000)}})
	odd := wire.AppendHeader(nil, wire.Header{RequestID: 10, ResponseTo: 1, OpCode: wire.OpUpdate})
	wire.PutLength(odd)
	server.next = append(server.next, odd...)
	server.mu.Unlock()
	raw := dialRaw(t, s.addr)
	raw.send(plain, 0, hello())
	_, err := raw.tryReceive()
	for err == nil {
		_, err = raw.tryReceive()
	}
	if n := errorCount(s, "upstream_malformed"); n != 1 || strings.Contains(s.log.String(), "panic") {
		t.Errorf("counted %d times", n)
	}
}
