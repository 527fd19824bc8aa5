package redis

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// sessionParts holds the parts of a session without a server. The test makes up the replies.
type sessionParts struct {
	t        *testing.T
	life     *gateway.PumpedSession
	codec    *valueCodec
	upstream upstreamWriter
	decoded  decodeBuffer
	user     user
	stored   *storedCommands

	answering sync.Mutex // one sequence of answers at a time
	client    net.Conn   // bytes written here come from the client
	server    net.Conn   // requests to the server arrive here
}

// idlePump is a reply pump with nothing to do.
type idlePump struct{}

func (idlePump) unblock()       {}
func (idlePump) midReply() bool { return false }
func (idlePump) discard()       {}
func (idlePump) reset()         {}
func (idlePump) monitor()       {}

func newParts(t *testing.T) *sessionParts {
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "all", Key: "k*", Setting: codec.Setting{Codec: codec.Zstd, Level: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	client, far := socketPair(t)
	up, server := socketPair(t)
	t.Cleanup(func() { _, _, _, _ = client.Close(), far.Close(), up.Close(), server.Close() })
	cfg := Config{Policy: rules, MaxSeal: envelope.DefaultMaxRaw, Log: slog.New(slog.DiscardHandler), Stats: gateway.NewStats("test", "redis")}
	requests, replies := memory.NewBudget(1<<20).Share("test"), memory.NewBudget(1<<20).Share("test")
	p := &sessionParts{t: t, codec: newValueCodec(&cfg), client: far, server: server}
	p.life = gateway.NewPumpedSession(gateway.PumpedSessionConfig{Client: client, Upstream: up, Requests: requests, Replies: replies, Stats: cfg.Stats, Log: cfg.Log})
	p.upstream.init(p.life, idlePump{}, &gateway.AuthProbe{}, cfg.Stats)
	p.decoded = decodeBuffer{codec: p.codec, upstream: &p.upstream, stall: time.Second}
	p.user.sideConn.init(&dialer{}, &p.upstream, &serverCommands{}, &scriptCache{})
	p.stored = newStoredCommands(&p.upstream, &p.user, &p.decoded, false)
	p.stored.prober.req = &request{}
	return p
}

// answer answers the next queued entries one after the other.
func (p *sessionParts) answer(how ...func(*entryData)) {
	go func() {
		p.answering.Lock()
		defer p.answering.Unlock()
		for _, answer := range how {
			var e entry
			for ok := false; !ok; {
				if e, ok = p.upstream.queue.pop(); !ok {
					time.Sleep(time.Millisecond)
				}
			}
			if e.data != nil {
				answer(e.data)
				finish(e.data)
			}
			p.upstream.queue.carried()
		}
	}()
}

// sentRequests returns n requests that have been sent, with scripts replaced by their names.
func (p *sessionParts) sentRequests(n int) (all []string) {
	for _, words := range p.words(n) {
		all = append(all, strings.Join(words, " "))
	}
	return all
}

func (p *sessionParts) words(n int) (all [][]string) {
	if err := p.upstream.out.Flush(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.server.SetReadDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(p.server)
	line := func() int {
		text, err := r.ReadString('\n')
		if err != nil {
			p.t.Fatal(err)
		}
		n, _ := resp.ParseInt([]byte(strings.TrimSpace(text[1:])))
		return int(n)
	}
	names := map[string]string{lua.Guard: "GUARD", lua.Escape: "ESCAPE", lua.Sort: "SORTER", lua.Inflate: "INFLATE", string(lua.Compose([]byte("return 1"))): "COMPOSED"}
	for range n {
		var words []string
		for range line() {
			body := make([]byte, line()+2)
			if _, err := io.ReadFull(r, body); err != nil {
				p.t.Fatal(err)
			}
			word := string(body[:len(body)-2])
			if name := names[word]; name != "" {
				word = name
			}
			words = append(words, word)
		}
		all = append(all, words)
	}
	return all
}

func (p *sessionParts) expect(want ...string) {
	p.t.Helper()
	if got := p.sentRequests(len(want)); !slices.Equal(got, want) {
		p.t.Errorf("said\n%q, want\n%q", got, want)
	}
}

func (p *sessionParts) sealed(value string) string {
	return string(p.codec.Sealer.Seal(nil, []byte(value), codec.Setting{Codec: codec.Zstd, Level: 1}, nil))
}

func requestOf(words ...string) *request {
	r := &request{}
	for _, w := range words {
		r.args = append(r.args, []byte(w))
	}
	r.cmd = newTable().lookup(r.args[0])
	return r
}

// queued returns the entry of the next reply and marks it as carried.
func (p *sessionParts) queued() entry {
	_ = p.upstream.out.Flush() // including entries that were only counted
	e, _ := p.upstream.queue.pop()
	p.upstream.queue.carried()
	return e
}

// inTransaction opens a transaction of the client.
func (p *sessionParts) inTransaction() {
	p.upstream.tx.open, p.upstream.tx.multi = true, new(multiAnswer)
}

func bulk(s string) string { return string(resp.AppendBulk(nil, s)) }

func given(o *entryData) { o.delivered = true }
func said(text string) func(*entryData) {
	return func(o *entryData) { o.answer = answer{head: text[0], text: text[1:]} }
}

func holding(body string) func(*entryData) {
	return func(o *entryData) { o.answer = answer{head: '$', body: []byte(body)} }
}

var lengthy = strings.Repeat("a value that becomes shorter ", 20)

func TestUpstreamWriterKeepsRepliesInOrder(t *testing.T) {
	p := newParts(t)
	c := &p.upstream
	c.beginRequest()
	for _, err := range []error{
		c.forward(requestOf("GET", "k"), entry{shape: shapeBulk}), c.refuse("ERR no"), c.sendHidden([][]byte{[]byte("PING")}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.expect("GET k", "ECHO", "PING")
	for i, want := range []entry{{shape: shapeBulk}, {kind: kindRefuse}, {flags: flagHidden}} {
		if e, ok := c.queue.pop(); !ok || e.kind != want.kind || e.shape != want.shape || e.flags != want.flags {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
}

func TestUpstreamWriterRepeatsAsking(t *testing.T) {
	p := newParts(t)
	p.upstream.asking.next = true
	p.upstream.beginRequest()
	for range 2 {
		if err := p.upstream.forward(requestOf("GET", "k"), entry{}); err != nil {
			t.Fatal(err)
		}
	}
	p.upstream.beginRequest()
	if err := p.upstream.forward(requestOf("GET", "l"), entry{}); err != nil {
		t.Fatal(err)
	}
	p.expect("GET k", "ASKING", "GET k", "GET l")
}

func TestUpstreamWriterMutesAndQueues(t *testing.T) {
	p := newParts(t)
	p.upstream.clientReply.skipNext = true
	p.upstream.beginRequest()
	p.upstream.tx.open = true
	if err := p.upstream.expect(entry{kind: kindAsk, data: &entryData{}}); err != nil {
		t.Fatal(err)
	}
	if e, _ := p.upstream.queue.pop(); e.flags != flagMute|flagQueued {
		t.Errorf("flags %b", e.flags)
	}
	if p.upstream.tx.queuedBytes == 0 {
		t.Error("the transaction does not count what is queued for EXEC")
	}
}

func TestSealsFollowTheRules(t *testing.T) {
	p := newParts(t)
	v := &valueRewriter{codec: p.codec, rules: p.codec.rules(), state: &p.upstream.state}
	for name, test := range map[string]struct {
		key, value string
		sealed     bool
	}{
		"covered":               {"k1", lengthy, true},
		"not covered":           {"other", lengthy, false},
		"a number":              {"k1", "12345678901234567890", false},
		"like an envelope":      {"other", envelope.Magic + "text", true},
		"an envelope as value":  {"other", p.sealed(lengthy), true},
		"too short to be worth": {"k1", "ab", false},
	} {
		a := v.address(stringValue, []byte(test.key), nil, len(test.value))
		out, sealed := v.sealValue(nil, &a, []byte(test.value), false)
		if sealed != test.sealed || sealed != envelope.IsSealed(out) {
			t.Errorf("%s: sealed %v", name, sealed)
		}
		if back, err := p.codec.Sealer.Open(nil, out); sealed && (err != nil || string(back) != test.value) {
			t.Errorf("%s: %v %q", name, err, back)
		}
	}
}

func TestDecodeBufferHoldsUntilTheRequestEnds(t *testing.T) {
	p := newParts(t)
	big := strings.Repeat(lengthy, 200)
	if _, err := p.decoded.open([]byte(p.sealed(big))); err != nil {
		t.Fatal(err)
	}
	if p.decoded.held == 0 {
		t.Errorf("nothing is held for a value of %d bytes", len(big))
	}
	env := []byte(p.sealed("x" + lengthy))
	if k, err := p.decoded.openAll([][]byte{env, env}); err != nil || len(k) != 1 || string(k[0].Value) != "x"+lengthy {
		t.Errorf("one envelope twice: %d values, %v", len(k), err)
	}
	if _, err := p.decoded.openAll([][]byte{nil}); err == nil {
		t.Error("an envelope for which no memory was free was opened")
	}
	if p.decoded.release(io.EOF) != io.EOF || p.decoded.held != 0 || p.decoded.owed != 0 {
		t.Error("something is held behind the request")
	}
}

func TestSessionStateLogin(t *testing.T) {
	p := newParts(t)
	p.upstream.state.credentials.Store(&credentials{"app", "pw"})
	if got := p.upstream.state.login(); got != "app" {
		t.Errorf("login %q", got)
	}
	p.upstream.state.pendingLogins.Add(1)
	if p.upstream.state.login() != gateway.LoginUnknown {
		t.Error("a login without an answer is believed")
	}
	p.upstream.state.pendingLogins.Add(-1)
	p.upstream.state.credentials.Store(&credentials{"default", "pw"})
	if got := p.upstream.state.login(); got != "" {
		t.Errorf("login %q", got)
	}
}

func TestSubscriptionIsActiveOnceAnswered(t *testing.T) {
	p := newParts(t)
	p.upstream.subscribing = true
	if p.upstream.isSubscriber() || p.upstream.subscribing {
		t.Error("active without an answer")
	}
	p.upstream.state.subscriptions.Store(1)
	if !p.upstream.isSubscriber() {
		t.Error("not active with a channel")
	}
	p.upstream.state.version.Store(3)
	if p.upstream.isSubscriber() {
		t.Error("active in RESP3, where subscribers may send anything")
	}
}

// The guard sends a command again with the value of the envelope that it met.
func TestGuardSendsValuesThatItMeets(t *testing.T) {
	p := newParts(t)
	env := p.sealed(lengthy)
	p.answer(func(o *entryData) {
		o.answer = answer{head: '*', list: [][]byte{[]byte(lua.Marker), []byte(env)}}
	}, given)
	if err := p.stored.guard.inflated(requestOf("APPEND", "k", "x")); err != nil {
		t.Fatal(err)
	}
	p.expect("EVAL GUARD 1 k "+envelope.Magic+" 0 APPEND k x", "EVAL GUARD 1 k "+envelope.Magic+" 1 "+env+" "+lengthy+" APPEND k x")
}

func TestGuardOfAUserWithoutScriptsIsAUnit(t *testing.T) {
	p := newParts(t)
	p.user.lua.denied = true
	ok := said("+OK")
	p.answer(ok, holding("pla"), ok, ok, given)
	if err := p.stored.guard.inflated(requestOf("APPEND", "k", "x")); err != nil {
		t.Fatal(err)
	}
	p.expect("WATCH k", "GETRANGE k 0 2", "MULTI", "APPEND k x", "EXEC")
}

// A unit decompresses values in place around its command, and starts again if another client changed them
// first.
func TestUnitInflates(t *testing.T) {
	p := newParts(t)
	env := p.sealed(lengthy)
	ok, lost := said("+OK"), func(o *entryData) { o.answer = answer{head: '*', null: true} }
	p.answer(
		ok, holding(envelope.Magic), holding(env), ok, ok, ok, ok, lost,
		ok, holding("pla"), ok, ok, ok, given,
	)
	if err := p.stored.units.run(requestOf("SETRANGE", "k", "0", "x"), [][]byte{[]byte("k")}); err != nil {
		t.Fatal(err)
	}
	escape := "EVAL ESCAPE 1 k " + envelope.Magic + " 1"
	p.expect(
		"WATCH k", "GETRANGE k 0 2", "GET k", "MULTI", "SET k "+lengthy+" XX KEEPTTL", "SETRANGE k 0 x", escape, "EXEC",
		"WATCH k", "GETRANGE k 0 2", "MULTI", "SETRANGE k 0 x", escape, "EXEC",
	)
}

// carrying returns a reply pump that reads the bytes server, and a function that returns what the client
// gets.
func carrying(t *testing.T, server string) (*replyPump, func() string) {
	p := newParts(t)
	up, from := socketPair(t)
	client, to := socketPair(t)
	if _, err := from.Write([]byte(server)); err != nil {
		t.Fatal(err)
	}
	_ = from.Close()
	life := gateway.NewPumpedSession(gateway.PumpedSessionConfig{Client: client, Upstream: up})
	life.Replies = p.life.Replies
	r := new(replyPump)
	r.init(life, &p.upstream.queue, &p.upstream.recentKeys, &p.upstream.state, p.codec, nil)
	return r, func() string {
		_ = r.frames.to.Flush()
		_, _ = client.Close(), up.Close()
		got, err := io.ReadAll(to)
		_ = to.Close()
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
}

func TestCopierOpensWhatTheShapeNames(t *testing.T) {
	env := newParts(t).sealed(lengthy)
	bulk := func(s string) string { return string(resp.AppendBulk(nil, s)) }
	r, got := carrying(t, "*2\r\n"+bulk(env)+bulk(env))
	if err := r.copier.copy(shapePairs, nil); err != nil {
		t.Fatal(err)
	}
	if want := "*2\r\n" + bulk(env) + bulk(lengthy); got() != want {
		t.Error("not the value alone was opened")
	}
}

func TestPushFramesCountSubscriptions(t *testing.T) {
	r, got := carrying(t, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n*3\r\n$10\r\npsubscribe\r\n$1\r\np\r\n:2\r\n")
	for range 2 {
		if err := r.pushes.carrySubscribe(1); err != nil {
			t.Fatal(err)
		}
	}
	m := &r.pushes
	if m.subs != 1 || m.patterns != 1 || !m.expected || m.state.subscriptions.Load() != 2 {
		t.Errorf("%d channels, %d patterns", m.subs, m.patterns)
	}
	if m.reset(); m.expected || m.state.subscriptions.Load() != 0 {
		t.Error("subscriptions are left")
	}
	if n := strings.Count(got(), "subscribe"); n != 2 {
		t.Errorf("%d acknowledgements", n)
	}
}

// A captured error may be longer than the buffer. The next reply begins behind it.
func TestLongErrorIsCaptured(t *testing.T) {
	r, got := carrying(t, "-NOPERM "+strings.Repeat("x", 2*bufferBytes)+"\r\n+next\r\n")
	long, next := &entryData{}, &entryData{}
	for _, o := range []*entryData{long, next} {
		if err := r.internal.capture(o); err != nil {
			t.Fatal(err)
		}
	}
	if !long.answer.isError() || !strings.HasPrefix(long.answer.text, "NOPERM xxx") {
		t.Errorf("%c%.20q", long.answer.head, long.answer.text)
	}
	if next.answer.text != "next" {
		t.Errorf("the next reply is %.20q", next.answer.text)
	}
	if text := got(); text != "" {
		t.Errorf("the client got %.20q", text)
	}
}

func TestAnswersAreCaptured(t *testing.T) {
	r, got := carrying(t, "*3\r\n$3\r\nabc\r\n:7\r\n$-1\r\n-ERR no\r\n")
	list, refused := &entryData{done: make(chan struct{})}, &entryData{done: make(chan struct{})}
	for _, o := range []*entryData{list, refused} {
		if err := r.internal.capture(o); err != nil {
			t.Fatal(err)
		}
		<-o.done
	}
	if l := list.answer.list; len(l) != 3 || string(l[0]) != "abc" || string(l[1]) != "7" || l[2] != nil {
		t.Errorf("%q", l)
	}
	if refused.answer.text != "ERR no" || !refused.answer.isError() {
		t.Errorf("%+v", refused.answer)
	}
	if text := got(); text != "" {
		t.Errorf("the client got %q", text)
	}
}
