package mongo

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestRulesSayWhatIsOffered(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules []policy.MessageRule
		want  []wire.CompressorID
	}{
		{"none", nil, []wire.CompressorID{wire.Zstd, wire.Snappy}},
		{"zstd", withZstd, []wire.CompressorID{wire.Zstd, wire.Snappy}},
		{"snappy", withSnappy, []wire.CompressorID{wire.Zstd, wire.Snappy}},
		{"zlib", withZlib, []wire.CompressorID{wire.Zstd, wire.Snappy, wire.Zlib}},
		{"auto", withAuto, []wire.CompressorID{wire.Zstd, wire.Snappy}},
	} {
		if got := compressionBy(t, c.rules).offer(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestChooseTakesWhatTheServerTook(t *testing.T) {
	c := compressionBy(t, withSnappy)
	est := &estimate{requestRule: c.policy.Load().Rules()[0], requestBytes: 1000}
	for taken, want := range map[compressorSet]wire.CompressorID{
		0: plain, 1<<wire.Snappy | 1<<wire.Zstd: wire.Snappy, 1 << wire.Zstd: wire.Zstd, 1 << wire.Zlib: wire.Zlib,
	} {
		id, _, reason := c.chooseCompressor(est, taken)
		if id != want || (reason == "not_negotiated") != (want == plain) {
			t.Errorf("of %b: %d, %q", taken, id, reason)
		}
	}
}

// native counts the calls of what stands for libzstd.
type native struct {
	codec.ZstdCoder
	calls int
}

func (*native) Name() string { return "libzstd" }

func (z *native) Compress(dst, src []byte, level int, d *codec.Dict) ([]byte, error) {
	z.calls++
	return z.ZstdCoder.Compress(dst, src, level, d)
}

func (z *native) Decompress(dst, src []byte, rawLen int, d *codec.Dict) ([]byte, error) {
	z.calls++
	return z.ZstdCoder.Decompress(dst, src, rawLen, d)
}

// Short messages do not call libzstd, unless its level makes them smaller.
func TestSmallMessagesUseGoZstd(t *testing.T) {
	z := &native{ZstdCoder: codec.NewGoZstd()}
	cfg := Config{Engine: codec.New(codec.Options{Zstd: z}), Stats: gateway.NewStats("test", "mongo")}
	cfg.complete()
	c := newCompression(&cfg)
	for _, test := range []struct{ bytes, level, compressing, decompressing int }{
		{300, 0, 0, 0},
		{smallBytes, smallLevel, 0, 0},
		{smallBytes, smallLevel + 1, 1, 0},
		{smallBytes + 1, 3, 1, 1},
	} {
		plain := wire.AppendHeader(nil, wire.Header{Length: wire.HeaderLen + test.bytes, RequestID: 7, OpCode: wire.OpMsg})
		plain = append(plain, bytes.Repeat([]byte{'a'}, test.bytes)...)
		h, err := wire.ParseHeader(plain)
		if err != nil {
			t.Fatal(err)
		}
		z.calls = 0
		received := c.compress(plain, h, wire.Zstd, test.level)
		compressing := z.calls
		got, err := c.decompress(&message{received: received, header: h, compressor: wire.Zstd})
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%+v: %d bytes, %v", test, len(got), err)
		}
		if compressing != test.compressing || z.calls-compressing != test.decompressing {
			t.Errorf("%+v: %d and %d calls", test, compressing, z.calls-compressing)
		}
	}
}

// The compressors that a server accepts of an offer are used even if the rules have changed since.
func TestOffersOutliveRules(t *testing.T) {
	p := newParts(t, withZlib)
	_, waits, err := p.helloForServer(requestOf(t, opMsg(1, 0, hello())))
	if err != nil {
		t.Fatal(err)
	}
	p.g.SetPolicy(nil)
	server := bson.D{{Key: "compression", Value: bson.A{"zlib", "snappy"}}, {Key: "ok", Value: 1}}
	if _, err := p.helloForClient(waits, replyOf(t, server)); err != nil {
		t.Fatal(err)
	}
	if taken := compressorSet(p.accepted.Load()); taken != 1<<wire.Zlib|1<<wire.Snappy {
		t.Errorf("taken: %b", taken)
	}
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
