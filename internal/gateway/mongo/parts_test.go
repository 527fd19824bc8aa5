package mongo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
	"github.com/cinch-layer/cinch/test/testenv"
)

// compressionBy returns the compression of a gateway with these rules, without the gateway.
func compressionBy(t testing.TB, rules []policy.MessageRule) *compression {
	t.Helper()
	p, err := policy.NewMessages(rules)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Policy: p, Engine: codec.New(codec.Options{}), Stats: gateway.NewStats("test", "mongo")}
	cfg.complete()
	return newCompression(&cfg)
}

// silent is a connection that accepts all writes and has nothing to read.
type silent struct {
	net.Conn
	told bytes.Buffer
}

func (s *silent) Read([]byte) (int, error)    { return 0, io.EOF }
func (s *silent) Write(p []byte) (int, error) { return s.told.Write(p) }
func (s *silent) Close() error                { return nil }
func (s *silent) LocalAddr() net.Addr         { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7} }
func (s *silent) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

// drains counts how often a session was asked to end.
type drains int

func (d *drains) Drain() { *d++ }

// partsOf is a session that does not run. It has no server; the test makes up the replies.
type partsOf struct {
	*session
	client *silent
	log    *testenv.Log
	drains drains
}

func newParts(t *testing.T, rules []policy.MessageRule, members ...endpoint.Upstream) *partsOf {
	t.Helper()
	policy, err := policy.NewMessages(rules)
	if err != nil {
		t.Fatal(err)
	}
	p := &partsOf{client: &silent{}, log: &testenv.Log{}}
	g := NewGateway(Config{
		Policy: policy, Engine: codec.New(codec.Options{}), Upstream: endpoint.Upstream{Network: "tcp"}, Members: members,
		Stats: gateway.NewStats("test", "mongo"), Log: p.log.Logger(),
	})
	g.resolved()
	t.Cleanup(g.cancel)
	g.addresses.own.Store(&gateway.Advertised{Host: "gateway", Port: "27"})
	p.session = newSession(g, p.client, &silent{}, 0)
	p.memberSession.session = &p.drains
	if g.balancer != nil {
		g.balancer.sessions.add(&p.memberSession)
	}
	return p
}

// requestOf returns a parsed request.
func requestOf(t testing.TB, b []byte) *request {
	t.Helper()
	r := &request{received: b, plain: b, compressor: plain}
	r.header, _ = wire.ParseHeader(b)
	if err := r.parse(); err != nil {
		t.Fatal(err)
	}
	return r
}

// answers returns a message of the server in reply to request 1.
func answers(doc bson.D) message {
	b := opMsg(9, 0, doc)
	h, _ := wire.ParseHeader(b)
	h.ResponseTo = 1
	copy(b, wire.AppendHeader(nil, h))
	return message{received: b, header: h, compressor: plain}
}

// replyOf returns a parsed reply.
func replyOf(t testing.TB, doc bson.D) *reply {
	t.Helper()
	r := &reply{message: answers(doc)}
	r.plain = r.received
	if err := r.parse(); err != nil {
		t.Fatal(err)
	}
	return r
}

var manyDocuments = bson.E{Key: "documents", Value: users(0, 50)}

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

// The first hello always gets the offer, later ones only if the client makes one.
func TestHellosOfferOnce(t *testing.T) {
	p := newParts(t, withZstd)
	for i, want := range []string{pairName + " zstd snappy", "", pairName + " zstd snappy"} {
		doc := hello()
		if i == 2 {
			doc = hello("snappy", "unknown")
		}
		out, waits, err := p.helloForServer(requestOf(t, opMsg(1, 0, doc)))
		if err != nil {
			t.Fatal(err)
		}
		sent := answer{doc: requestOf(t, out).document.Of(out)}.compression()
		if got := strings.Join(sent, " "); got != want || waits.offerSent != (want != "") {
			t.Errorf("hello %d offers %q", i, got)
		}
		if i == 2 && !slices.Equal(waits.clientCompressors, []wire.CompressorID{wire.Snappy}) {
			t.Errorf("the client sees %v", waits.clientCompressors)
		}
	}
}

func TestHellosAnswer(t *testing.T) {
	p := newParts(t, withZstd)
	p.g.addresses.setStandbys("rs", []string{"standby:9"})
	server := bson.D{
		{Key: "hosts", Value: bson.A{"db0:1", "db1:1"}},
		{Key: "setName", Value: "rs"},
		{Key: "me", Value: "db0:1"},
		{Key: "compression", Value: bson.A{"zstd", "snappy", "zlib"}},
		{Key: "ok", Value: 1},
	}
	out, err := p.helloForClient(&handshake{offerSent: true, offer: p.offer(), clientCompressors: []wire.CompressorID{wire.Snappy}, logins: p.g.logins}, replyOf(t, server))
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Hosts, Compression, Arbiters []string
		Me                           string
	}
	if err := bson.Unmarshal(requestOf(t, out).document.Of(out), &said); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(said) != "{[gateway:27 db1:1] [snappy] [standby:9] gateway:27}" {
		t.Errorf("%+v", said)
	}
	if compressorSet(p.accepted.Load()) != 1<<wire.Zstd|1<<wire.Snappy {
		t.Errorf("taken: %b", compressorSet(p.accepted.Load()))
	}
	if n := p.log.Count("member has no gateway"); n != 1 {
		t.Errorf("%d lines about members without a gateway", n)
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

// A balancer's client gets the members' own names, and a service ID.
func TestHellosOfABalancer(t *testing.T) {
	p := newParts(t, withZstd, endpoint.Upstream{Address: "db0:1"}, endpoint.Upstream{Address: "db1:1"})
	_, waits, err := p.helloForServer(requestOf(t, opMsg(1, 0, append(hello(), bson.E{Key: "loadBalanced", Value: true}))))
	if err != nil || !waits.loadBalanced || waits.serviceID != p.g.balancer.serviceID(0) {
		t.Fatalf("%+v, %v", waits, err)
	}
	primary := bson.D{{Key: "hosts", Value: bson.A{"db0:1"}}, {Key: "me", Value: "db0:1"}, {Key: "isWritablePrimary", Value: true}, {Key: "ok", Value: 1}}
	out, err := p.helloForClient(waits, replyOf(t, primary))
	if err != nil || !bytes.Contains(out, []byte("serviceId")) || bytes.Contains(out, []byte("gateway:27")) {
		t.Errorf("%v: %q", err, out)
	}
	primary[2].Value = false
	if _, err := p.helloForClient(waits, replyOf(t, primary)); !errors.Is(err, errNotPrimary) {
		t.Errorf("a member that is primary no more: %v", err)
	}
}

func TestRewriterDecides(t *testing.T) {
	insert := opMsg(1, 0, command("insert", "users", manyDocuments))
	for _, c := range []struct {
		name    string
		message []byte
		taken   compressorSet
		reason  string
		smaller bool
	}{
		{"large", insert, 1 << wire.Zstd, "", true},
		{"nothing agreed on", insert, 0, "not_negotiated", false},
		{"small", opMsg(1, 0, command("ping", 1)), 1 << wire.Zstd, "small", false},
		{"large replies", opMsg(1, 0, command("find", "users")), 1 << wire.Zstd, "", false},
		{"a secret", opMsg(1, 0, command("saslContinue", 1, manyDocuments)), 1 << wire.Zstd, "", false},
	} {
		p := newParts(t, withZstd)
		p.accepted.Store(uint32(c.taken))
		r := requestOf(t, c.message)
		var x exchange
		out, pooled, _ := p.rewrite(r, &x)
		if x.reason != c.reason || (len(out) < len(c.message)) != c.smaller {
			t.Errorf("%s: %q, %d of %d bytes", c.name, x.reason, len(out), len(c.message))
		}
		memory.PutBuffer(pooled)
		b := p.compress(r.plain, r.header, wire.Zstd, 0)
		if err := p.handleRequest(message{received: b, header: r.header, compressor: wire.Zstd}); err != nil {
			t.Fatal(err)
		}
		secret := c.name == "a secret"
		if x := p.pending.list[0]; (x.rule == nil) != secret || (x.replyCompressor == plain) != secret || (x.shape == 0) != secret || x.id != 1 {
			t.Errorf("%s: waits as %+v", c.name, x)
		}
	}
}

// A request counts for the rule that covers it, even if a larger reply is expected, whose rule then chooses
// the compressor.
func TestRequestsCountForTheirRule(t *testing.T) {
	zstd := codec.Setting{Codec: codec.Zstd}
	p := newParts(t, []policy.MessageRule{
		{Name: "requests", Direction: policy.Request, Setting: zstd}, {Name: "replies", Direction: policy.Reply, Setting: zstd},
	})
	p.accepted.Store(1 << wire.Zstd)
	r := requestOf(t, opMsg(1, 0, command("find", "users", manyDocuments)))
	for range 20 {
		p.forecasts.observe(r.shape, 10*len(r.plain), 10*len(r.plain), plain)
	}
	for range 20 {
		_, pooled, _ := p.rewrite(r, &exchange{})
		memory.PutBuffer(pooled)
	}
	for _, r := range p.stats.Snapshot().Rules {
		if want := r.Rule == "requests"; (r.Sealed == 20) != want {
			t.Errorf("%s: %d", r.Rule, r.Sealed)
		}
	}
}

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

// The gateway's own time for a request is not part of the round trip to the server.
func TestRoundTripsBeginWhenRequestsAreSent(t *testing.T) {
	p := newParts(t, withZstd)
	p.accepted.Store(1 << wire.Zstd)
	b := opMsg(1, 0, command("insert", "users", manyDocuments))
	h, _ := wire.ParseHeader(b)
	before := time.Now()
	if err := p.handleRequest(message{received: b, header: h, compressor: plain}); err != nil {
		t.Fatal(err)
	}
	if x := p.pending.list[0]; x.spent <= 0 || x.sent.Add(-x.spent).Before(before) {
		t.Errorf("sent %v after it came, of which %v were spent here", x.sent.Sub(before), x.spent)
	}
}

// The reply pump looks up the requests of replies, and lifts the limit on messages after a successful login.
func TestReplyPumpFindsRequests(t *testing.T) {
	p := newParts(t, withZstd)
	p.door.Probe = &gateway.AuthProbe{Ask: func(context.Context) (bool, error) { return true, nil }}
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
		if got := p.door.MustAuthenticate(t.Context()); got != c.stranger || p.pending.busy() {
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

// A login may end in the reply to the hello that began it: by OIDC with a token that is still valid, and by
// X.509.
func TestLoginsEndWithinHello(t *testing.T) {
	// Reply of mongod 6.0.5 to X.509.
	user := bson.D{{Key: "dbname", Value: "$external"}, {Key: "user", Value: "CN=u"}}
	step := func(done any) bson.D {
		return bson.D{{Key: "conversationId", Value: 1}, {Key: "done", Value: done}, {Key: "payload", Value: []byte("r=1,s=2,i=3")}}
	}
	for _, c := range []struct {
		name     string
		first    any // nil: the server's reply has no such field
		ok       int
		stranger bool
	}{
		{"no answer", nil, 1, true},
		{"a step", step(false), 1, true},
		{"the last step", step(true), 1, false},
		{"a certificate", user, 1, false},
		{"done in another form", step("true"), 1, true},
		{"no document", "done", 1, true},
		{"the hello is refused", step(true), 0, true},
	} {
		p := newParts(t, withZstd)
		p.door.Probe = &gateway.AuthProbe{Ask: func(context.Context) (bool, error) { return true, nil }}
		p.pending.push(&exchange{id: 1, replyCompressor: plain, hello: &handshake{logins: p.g.logins}}, nil)
		doc := bson.D{{Key: "me", Value: "db0:1"}, {Key: "ok", Value: c.ok}}
		if c.first != nil {
			doc = append(doc, bson.E{Key: speculativeKey, Value: c.first})
		}
		if err := p.handleReply(answers(doc)); err != nil || p.client.told.Len() == 0 {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := p.door.MustAuthenticate(t.Context()); got != c.stranger {
			t.Errorf("%s: a stranger %v", c.name, got)
		}
	}
}

// An error of a member that is no longer primary ends the session, before or after it is delivered to the
// client.
func TestReplyPumpEndsAtALostPrimary(t *testing.T) {
	lost := bson.D{{Key: "code", Value: 10107}, {Key: "ok", Value: 0}}
	for _, retried := range []bool{false, true} {
		p := newParts(t, nil, endpoint.Upstream{Address: "db0:1"}, endpoint.Upstream{Address: "db1:1"})
		var others [2]drains
		p.g.balancer.sessions.add(&memberSession{session: &others[0]})
		p.g.balancer.sessions.add(&memberSession{session: &others[1], member: 1})
		p.g.balancer.askedAt = time.Now()
		p.pending.push(&exchange{id: 1, replyCompressor: plain, retryable: retried}, nil)
		if err := p.handleReply(answers(lost)); !errors.Is(err, errNotPrimary) {
			t.Error(err)
		}
		if told := p.client.told.Len() > 0; told == retried {
			t.Errorf("retried %v, and the client was told: %v", retried, told)
		}
		if others != [2]drains{1, 0} || p.drains != 0 || !p.g.balancer.askedAt.IsZero() {
			t.Errorf("drained: %v, and itself %d times", others, p.drains)
		}
	}
}

func TestFollowersLeave(t *testing.T) {
	var all memberSessions
	var ended [3]drains
	for i := range ended {
		all.add(&memberSession{member: i, session: &ended[i]})
	}
	gone := &memberSession{member: 0, session: new(drains)}
	all.add(gone)
	all.remove(gone)
	if all.retireOthers(1); ended != [3]drains{1, 0, 1} || gone.stale.Load() {
		t.Errorf("ended %v", ended)
	}
	if all.retireOthers(1); ended != [3]drains{1, 0, 1} {
		t.Errorf("again: %v", ended)
	}
}

func TestPendingExchanges(t *testing.T) {
	var p pending
	p.init()
	for i, id := range []int32{5, 7, 5} {
		p.push(&exchange{id: id, shape: uint64(i)}, nil)
	}
	if x, ok := p.take(5, true, 8); !ok || x.shape != 0 {
		t.Errorf("the first of one number: %+v, %v", x, ok)
	}
	if x, ok := p.take(8, false, 0); !ok || x.shape != 0 || !x.sent.IsZero() {
		t.Errorf("the next of a stream: %+v, %v", x, ok)
	}
	if _, ok := p.take(9, false, 0); ok {
		t.Error("found a request that was not sent")
	}
	p.take(5, false, 0)
	p.take(7, false, 0)
	if !p.busy() {
		t.Error("a reply that is on its way to the client is not missed")
	}
	p.replySent()
	p.push(&exchange{id: 1, hello: &handshake{}}, nil)
	if p.busy() {
		t.Error("a waiting hello counts as busy")
	}
}

// room is closed when a push blocks.
type room chan struct{}

func (r room) Await(memory.Peer) { close(r) }
func (room) Awaited(memory.Peer) {}

// A client that sends without reading is blocked until there is room or the server has ended.
func TestPendingIsBounded(t *testing.T) {
	var p pending
	p.init()
	for range maxPending {
		p.push(&exchange{id: 1}, nil)
	}
	for _, c := range []struct {
		free func()
		want bool
	}{{func() { p.take(1, false, 0) }, true}, {p.close, false}} {
		waits, done := make(chan struct{}), make(chan bool)
		go func() { done <- p.push(&exchange{id: 2}, room(waits)) }()
		<-waits
		c.free()
		if ok := <-done; ok != c.want {
			t.Errorf("pushed: %v", ok)
		}
	}
}

func TestLoginsAreChecked(t *testing.T) {
	p := newParts(t, nil)
	l := p.g.logins
	start := func(mechanism string) []byte {
		return opMsg(1, 0, command("saslStart", 1, bson.E{Key: "mechanism", Value: mechanism}))
	}
	for _, c := range []struct {
		name    string
		message []byte
		want    string
	}{
		{"its own proof", start("SCRAM-SHA-256"), ""},
		{"a certificate", start(mechanismX509), mechanismX509},
		{"in a section", behindSection(1, mechanismKey, command("saslStart", 1)), unknownMechanism},
	} {
		if got, err := l.refusedMechanism(requestOf(t, c.message)); got != c.want || err != nil {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	if err := p.handleRequest(answers(command("find", "users", bson.E{Key: "mechanism", Value: mechanismX509}))); err != nil || p.client.told.Len() > 0 {
		t.Errorf("another command: %v, %q", err, p.client.told.String())
	}
	b := l.refusalReply(wire.Header{RequestID: 4, OpCode: wire.OpMsg}, mechanismX509)
	if h, _ := wire.ParseHeader(b); h.ResponseTo != 4 || !bytes.Contains(b, []byte("log in with SCRAM")) {
		t.Errorf("%+v: %q", h, b)
	}
	l.recordRefused(p.client, "X")
	if p.log.Count("login refused") != 1 || l.stats.Snapshot().Errors["login_refused"] != 1 {
		t.Error("a refusal is not told")
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

func TestTopicsAreRemembered(t *testing.T) {
	topics := &nsCommands{}
	users, find := []byte("shop.users"), []byte("find")
	first := topics.get(users, find)
	users[0], find[0] = 'x', 'x'
	topics.get([]byte("shop.other"), []byte("ping"))
	if string(first.namespace) != "shop.users" || string(first.command) != "find" || topics.get([]byte("shop.users"), []byte("find")) != first {
		t.Errorf("%q %q", first.namespace, first.command)
	}
	if topics.get([]byte("shop.user"), []byte("sfind")) == first || topics.get(make([]byte, maxNSCommandName), find) != nil {
		t.Error("names run together, or have no bound")
	}
	for i := range 2 * maxNSCommands {
		topics.get(fmt.Append(nil, "shop.", i), find)
	}
	if n := len(topics.m); n > maxNSCommands {
		t.Errorf("%d topics", n)
	}
}

func TestAddressesOfMembers(t *testing.T) {
	a := newParts(t, nil).g.addresses
	local := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 7}
	if _, ok := a.addressOf([]byte("db0:1"), local); ok {
		t.Error("a member is known before it was heard of")
	}
	a.recordMember(helloReply{me: "DB0:1", setName: "rs"})
	if at, ok := a.addressOf([]byte("db0:1"), local); !ok || at != "gateway:27" {
		t.Errorf("%q", at)
	}
	a.own.Store(&gateway.Advertised{Port: "28"})
	a.learnMember("db0:1")
	if at, _ := a.addressOf([]byte("db0:1"), local); at != "10.0.0.1:28" {
		t.Errorf("at a gateway that is known by its port: %q", at)
	}
}

func TestWatcherAnswers(t *testing.T) {
	p := newParts(t, nil)
	doc, _ := bson.Marshal(bson.D{{Key: "hosts", Value: bson.A{"db0:1"}}, {Key: "setName", Value: "rs"}, {Key: "secondary", Value: true}, {Key: "ok", Value: 1}})
	p.g.addresses.learnMember("db0:1")
	s := &standby{addresses: p.g.addresses, ctx: t.Context(), doc: doc, set: "rs", askedAt: time.Now().Add(time.Hour)}
	for _, c := range []struct {
		doc  bson.D
		want string
	}{
		{hello(), "arbiterOnly"},
		{command("ping", 1), ""},
		{command("find", "users"), "NotPrimaryOrSecondary"},
	} {
		w := newWatcher(s, p.client, nil, p.stats)
		b := opMsg(1, 0, c.doc)
		h, _ := wire.ParseHeader(b)
		p.client.told.Reset()
		if err := w.answer(message{received: b, header: h, compressor: plain}); err != nil {
			t.Fatal(err)
		}
		got := p.client.told.String()
		if !strings.Contains(got, c.want) || strings.Contains(got, "db0:1") || strings.Contains(got, "gateway:27") != (c.want == "arbiterOnly") {
			t.Errorf("to %v: %q", c.doc, got)
		}
	}
}
