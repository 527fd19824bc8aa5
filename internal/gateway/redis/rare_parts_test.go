package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// sideServer is a server for second connections. It has an answer for some commands and refuses all others.
type sideServer struct {
	answers map[string]string

	mu    sync.Mutex
	dials int
	heard []string
}

// withSideServer makes the user's second connections go to a sideServer.
func (p *sessionParts) withSideServer(answers map[string]string) *sideServer {
	b := &sideServer{answers: answers}
	p.user.sideConn.dialer.dialFunc = func(context.Context) (net.Conn, error) {
		near, far := socketPair(p.t)
		b.mu.Lock()
		b.dials++
		b.mu.Unlock()
		go b.serve(far)
		return near, nil
	}
	p.t.Cleanup(p.user.sideConn.close)
	return b
}

func (b *sideServer) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		var n, size int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
			return
		}
		var words []string
		for range n {
			if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
				return
			}
			word := make([]byte, size+2)
			for have := 0; have < len(word); {
				k, err := in.Read(word[have:])
				if err != nil {
					return
				}
				have += k
			}
			words = append(words, string(word[:size]))
		}
		name := strings.ToUpper(words[0])
		answer, known := b.answers[name]
		if !known {
			answer = "-ERR unknown command\r\n"
		} else {
			b.mu.Lock()
			b.heard = append(b.heard, strings.Join(words, " "))
			b.mu.Unlock()
		}
		if _, err := c.Write([]byte(answer)); err != nil {
			return
		}
	}
}

func (b *sideServer) was(t *testing.T, want ...string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.heard, want) {
		t.Errorf("asked beside %q, want %q", b.heard, want)
	}
	b.heard = nil
}

func bulk(s string) string { return string(resp.AppendBulk(nil, s)) }

// holdingSealed returns a server's answers for a key that holds an envelope.
func holdingSealed(env string) map[string]string {
	return map[string]string{"GETRANGE": bulk(env[:min(len(env), envelope.MaxHeaderLen)]), "STRLEN": fmt.Sprintf(":%d\r\n", len(env)), "GET": bulk(env)}
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

func TestNestedUnitInflatesBeforeScript(t *testing.T) {
	p := newParts(t)
	env := p.sealed(lengthy)
	p.withSideServer(holdingSealed(env))
	p.inTransaction()
	if err := p.stored.nested.run(requestOf("EVAL", "return 1", "1", "k"), [][]byte{[]byte("k")}); err != nil {
		t.Fatal(err)
	}
	p.expect("EVAL INFLATE 2 k k 1 "+env+" "+lengthy, "EVAL COMPOSED 1 k "+envelope.Magic+" 0 1 0")
	for i, flags := range []entryFlags{flagQueued | flagHidden, flagQueued} {
		if e := p.queued(); e.flags != flags {
			t.Errorf("entry %d has the flags %b", i, e.flags)
		}
	}
}

func TestNestedUnitRefusesPossibleEnvelopes(t *testing.T) {
	p := newParts(t)
	p.user.sideConn.commands.noScriptShow.Store(true)
	p.user.lua.denied = true
	p.withSideServer(map[string]string{"TYPE": "+string\r\n", "GETRANGE": "$5\r\nplain\r\n"})
	p.inTransaction()
	for _, test := range []struct{ request, want string }{
		{"EVALSHA 0123456789012345678901234567890123456789 1 k", "NOSCRIPT"},
		{"FCALL f 1 k", "ERR cinch: inside MULTI"},
	} {
		if err := p.stored.nested.run(requestOf(strings.Fields(test.request)...), [][]byte{[]byte("k")}); err != nil {
			t.Fatal(err)
		}
		p.expect("ECHO")
		if e := p.queued(); e.kind != kindRefuse || !strings.HasPrefix(e.data.text, test.want) {
			t.Errorf("%s: %+v", test.request, e.data)
		}
	}
}

// A key that was watched before it was examined can't become compressed unnoticed.
func TestNestedUnitTrustsWatchedKeys(t *testing.T) {
	p := newParts(t)
	p.withSideServer(map[string]string{"TYPE": "+string\r\n", "GETRANGE": "$5\r\nplain\r\n"})
	keys := [][]byte{[]byte("k")}
	p.upstream.tx.watch.begin(defaultDatabase, keys)
	p.inTransaction()
	if err := p.stored.nested.run(requestOf("FCALL", "f", "1", "k"), keys); err != nil {
		t.Fatal(err)
	}
	p.expect("FCALL f 1 k")
}

func TestSorterSendsWeightsThatItMeets(t *testing.T) {
	p := newParts(t)
	env := p.sealed(lengthy)
	p.answer(func(o *entryData) {
		o.answer = answer{head: '*', list: [][]byte{[]byte(lua.Marker), []byte(env)}}
	}, given)
	if err := p.stored.sorter.sort(requestOf("SORT", "l", "BY", "w*")); err != nil {
		t.Fatal(err)
	}
	begin, end := "EVAL SORTER 1 l "+envelope.Magic+" w*   ", "SORT l BY w*"
	p.expect(begin+"0 0 "+end, begin+"1 "+env+" "+lengthy+" 0 "+end)
}

func TestSorterWithoutScripts(t *testing.T) {
	p := newParts(t)
	p.user.lua.denied = true
	for request, want := range map[string]kind{"SORT l": kindReply, "SORT l BY w*": kindRefuse, "SORT l GET k* STORE m": kindRefuse, "SORT l GET k*": kindReply} {
		if err := p.stored.sorter.sort(requestOf(strings.Fields(request)...)); err != nil {
			t.Fatal(err)
		}
		if e := p.queued(); e.kind != want {
			t.Errorf("%s: kind %d, want %d", request, e.kind, want)
		}
	}
}

func TestSideConnFollowsTheDatabase(t *testing.T) {
	p := newParts(t)
	x := &p.user.sideConn
	b := p.withSideServer(map[string]string{"PING": "+PONG\r\n", "SELECT": "+OK\r\n"})
	ping := func() {
		t.Helper()
		if err := x.client().Ping(ctx).Err(); err != nil {
			t.Error(err)
		}
	}
	ping()
	ping()
	b.was(t, "ping", "ping")
	space := "3"
	p.upstream.state.selected.Store(&space)
	ping()
	b.was(t, "select 3", "ping")
	if b.dials != 2 {
		t.Errorf("%d connections for two databases", b.dials)
	}
	x.close()
	if err := x.client().Ping(ctx).Err(); !errors.Is(err, goredis.ErrClosed) {
		t.Errorf("behind the end of the session: %v", err)
	}
}

// Rights are asked for without running the command, in a transaction that is discarded.
func TestSideConnAsksWithoutRunning(t *testing.T) {
	p := newParts(t)
	const refusal = "NOPERM no permissions to run the 'append' command"
	answers := map[string]string{"MULTI": "+OK\r\n", "APPEND": "-" + refusal + "\r\n", "DISCARD": "+OK\r\n"}
	b := p.withSideServer(answers)
	request := requestOf("APPEND", "k", "x").args
	if got := p.user.sideConn.permissionError(request); got != refusal {
		t.Errorf("%q", got)
	}
	b.was(t, "MULTI", "APPEND k x", "DISCARD")

	p.user.sideConn.invalidate()
	b = p.withSideServer(map[string]string{"MULTI": "-NOPERM no MULTI\r\n", "APPEND": answers["APPEND"], "DISCARD": "+OK\r\n"})
	if got := p.user.sideConn.permissionError(request); got != "" {
		t.Errorf("that MULTI is forbidden says nothing of APPEND: %q", got)
	}
	b.was(t, "MULTI")
}

func TestSideConnRemembersCommands(t *testing.T) {
	p := newParts(t)
	b := p.withSideServer(map[string]string{"COMMAND": "*1\r\n*-1\r\n"})
	row := &command{name: "newer"}
	for range 2 {
		if p.user.sideConn.supports(row) {
			t.Error("the server has it, it says")
		}
	}
	b.was(t, "COMMAND INFO newer")
}

// controlled returns the handler of commands that change the connection's state.
func (p *sessionParts) controlled() *control {
	c := new(control)
	c.init(&Gateway{codec: p.codec}, &p.upstream, &p.user, nil)
	return c
}

func replied(text string) func(*entryData) {
	return func(o *entryData) { o.after(answer{head: text[0], text: text[1:]}) }
}

func TestControlBelievesAnswers(t *testing.T) {
	p := newParts(t)
	c := p.controlled()
	p.upstream.state.credentials.Store(&credentials{"app", "pw"})
	p.answer(replied("-ERR out of range"), replied("+OK"), replied("-NOPERM"), replied("+RESET"))
	for _, test := range []struct{ request, space, who string }{
		{"SELECT 99", "0", "app"}, {"SELECT 3", "3", "app"}, {"RESET", "3", "app"}, {"RESET", "0", ""},
	} {
		if err := c.handle(requestOf(strings.Fields(test.request)...)); err != nil {
			t.Fatal(err)
		}
		if got := p.upstream.state.database(); got != test.space || p.upstream.state.login() != test.who {
			t.Errorf("behind %s: database %s, login %q", test.request, got, p.upstream.state.login())
		}
	}
	p.expect("SELECT 99", "SELECT 3", "RESET", "RESET")
}

func TestControlSelectsWithinATransaction(t *testing.T) {
	p := newParts(t)
	c := p.controlled()
	p.inTransaction()
	if err := c.handle(requestOf("SELECT", "3")); err != nil {
		t.Fatal(err)
	}
	if *p.upstream.state.selected.Load() != defaultDatabase || p.upstream.state.database() != "3" || !p.upstream.tx.changesState {
		t.Error("the database counts for what is queued behind it, and from EXEC on")
	}
	if err := c.handle(requestOf("DISCARD")); err != nil {
		t.Fatal(err)
	}
	if p.upstream.tx.open || p.upstream.state.database() != defaultDatabase {
		t.Error("DISCARD leaves a transaction, or its database")
	}
}

// The gateway goes by what the server answers to CLIENT TRACKING, and in a transaction by what EXEC does.
func TestControlBelievesAnswersAboutTracking(t *testing.T) {
	p := newParts(t)
	c := p.controlled()
	expect := func(want bool, words ...string) {
		t.Helper()
		for _, w := range words {
			if err := c.handle(requestOf(strings.Fields(w)...)); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.user.tracking.Load(); got != want {
			t.Errorf("behind %s: tracking %v", words, got)
		}
	}
	p.answer(replied("-ERR no"), replied("+OK"), replied("-ERR no"), replied("-ERR no"))
	expect(false, "CLIENT TRACKING ON REDIRECT 1")
	expect(true, "CLIENT TRACKING ON")
	expect(true, "CLIENT TRACKING OFF")
	expect(true, "CLIENT TRACKING maybe")
	p.inTransaction()
	expect(true, "CLIENT TRACKING OFF", "DISCARD")
	_, _ = p.queued(), p.queued()
	p.inTransaction()
	expect(true, "CLIENT TRACKING OFF")
	if !p.upstream.tx.changesState {
		t.Error("EXEC does not wait for its replies")
	}
	replied("+OK")(p.queued().data)
	expect(false)
}

// An envelope that is too long as stored is reported with that length, not with the value's.
func TestEnvelopeTooLongAsStored(t *testing.T) {
	p := newParts(t)
	env := p.sealed(lengthy)
	var spill spill
	var f frames
	spill.init(p.life, p.codec)
	f.init(p.life, &spill)
	if _, err := io.WriteString(p.server, env+strings.Repeat("x", envelope.MaxHeaderLen)); err != nil {
		t.Fatal(err)
	}
	o := replyDecoder{frames: &f, codec: p.codec}
	for _, test := range []struct {
		maxOpen, stored int
		want            string
	}{
		{len(lengthy), len(lengthy) + envelope.MaxHeaderLen, ""},
		{len(lengthy), len(lengthy) + envelope.MaxHeaderLen + 1, fmt.Sprintf("%d bytes as stored, the limit is %d (max_open)", len(lengthy)+envelope.MaxHeaderLen+1, len(lengthy))},
		{len(lengthy) - 1, len(env), fmt.Sprintf("%d bytes, the limit is %d (max_open)", len(lengthy), len(lengthy)-1)},
	} {
		p.codec.maxOpen = test.maxOpen
		_, err := o.parseHeader(int64(test.stored))
		if (err != nil) != (test.want != "") || err != nil && !(errors.Is(err, envelope.ErrTooLarge) && strings.HasSuffix(err.Error(), ": "+test.want)) {
			t.Errorf("%d bytes stored, limit %d: %v, want %q", test.stored, test.maxOpen, err, test.want)
		}
	}
}

func TestControlMutes(t *testing.T) {
	p := newParts(t)
	c := p.controlled()
	for _, test := range []struct {
		request string
		want    clientReply
	}{
		{"CLIENT REPLY SKIP", clientReply{skipNext: true}}, {"CLIENT REPLY OFF", clientReply{off: true, skipNext: true}}, {"CLIENT REPLY ON", clientReply{}},
	} {
		if err := c.handle(requestOf(strings.Fields(test.request)...)); err != nil {
			t.Fatal(err)
		}
		if p.upstream.clientReply != test.want {
			t.Errorf("%s: %+v", test.request, p.upstream.clientReply)
		}
	}
	p.expect("CLIENT REPLY ON") // the server gets no other
	p.inTransaction()
	if err := c.handle(requestOf("CLIENT", "REPLY", "OFF")); err != nil || p.upstream.clientReply.off {
		t.Errorf("within a transaction: %v", err)
	}
	p.expect("ECHO")
}

// recordingHandler records what a large passes on.
type recordingHandler struct{ collected [][]byte }

func (d *recordingHandler) handleCollected(args [][]byte) error { d.collected = args; return nil }
func (*recordingHandler) failWith(text string) error            { return errors.New(text) }
func (*recordingHandler) passProtocolError() error              { return resp.ErrProtocol }

// largely passes a request to a large, which handles it. The beginning of the request fills the buffer.
func (p *sessionParts) largely(words ...string) *recordingHandler {
	p.t.Helper()
	go func() { _, _ = p.client.Write(resp.AppendCommand(nil, words...)) }()
	in, d := new(requestReader), new(recordingHandler)
	in.init(&p.upstream, newTable())
	l := large{reader: in, upstream: &p.upstream, rewriter: &valueRewriter{codec: p.codec, rules: p.codec.rules(), state: &p.upstream.state, dialed: time.Now()}, decoded: &p.decoded, handler: d}
	for !in.isLarge() {
		if _, err := in.parser.Parse(in.in.Buffered()); err != nil {
			p.t.Fatal(err)
		}
		if in.isLarge() {
			break
		}
		if err := in.in.Fill(); err != nil {
			p.t.Fatal(err)
		}
	}
	if err := l.request(); err != nil {
		p.t.Fatal(err)
	}
	return d
}

func TestLargeRequestsByTheirRows(t *testing.T) {
	long := strings.Repeat("a long value ", 4000)
	for name, test := range map[string]struct {
		words     []string
		collected bool
		sealed    []int // arguments that are compressed
	}{
		"no value arguments": {words: []string{"ECHO", long}},
		"value by value":     {words: []string{"MSET", "k1", long, "other", long, "k2", long}, sealed: []int{2, 6}},
		"no rule":            {words: []string{"SET", "other", long}},
		"computed on":        {words: []string{"APPEND", "k1", long}, collected: true},
		"stored and known":   {words: []string{"SET", "k1", long, "EX", "10"}, collected: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newParts(t)
			d := p.largely(test.words...)
			if got := d.collected != nil; got != test.collected {
				t.Fatalf("collected: %v", got)
			}
			if test.collected {
				for i, word := range test.words {
					if string(d.collected[i]) != word {
						t.Errorf("argument %d has %d bytes, want %d", i, len(d.collected[i]), len(word))
					}
				}
				return
			}
			for i, got := range p.words(1)[0] {
				switch {
				case slices.Contains(test.sealed, i):
					if !strings.HasPrefix(got, envelope.Magic) {
						t.Errorf("argument %d is not sealed", i)
					}
				case got != test.words[i]:
					t.Errorf("argument %d is another", i)
				}
			}
		})
	}
}

// The budget that a large request has taken is released with it.
func TestLargeRequestsHoldNothing(t *testing.T) {
	p := newParts(t)
	p.largely("APPEND", "k1", strings.Repeat("x", 200<<10))
	if !p.life.Requests.TryAcquire(1 << 17) {
		t.Error("memory is missing")
	}
}
