package redis

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// A client that does not wait for the answer to its login counts as logged in for the requests behind it.
func TestLongRequestsBehindALogin(t *testing.T) {
	t.Parallel()
	sock := startServer(t, "--requirepass", "secret")
	front, _ := startGateway(t, sock)
	direct := clientOf(t, sock, as("", "secret"))
	more := strings.Repeat("and more of it; ", 4<<10)
	magic := envelope.Magic + strings.Repeat("no envelope; ", 8<<10)
	for _, login := range []string{"AUTH secret\r\n", "AUTH default secret\r\n", "HELLO 2 AUTH default secret SETNAME me\r\n"} {
		expect(t, clientOf(t, front, as("", "secret")), "SET k {long}", "OK")
		if !isSealed(t, direct, "k") {
			t.Fatal("not sealed")
		}
		c := dialRaw(t, front)
		b := []byte(login)
		for _, args := range [][]string{{"APPEND", "k", more}, {"SET", "m", magic}, {"GET", "k"}, {"GET", "m"}, {"QUIT"}} {
			b = resp.AppendArray(b, len(args))
			for _, a := range args {
				b = resp.AppendBulk(b, a)
			}
		}
		go func() { _, _ = c.Write(b) }()
		got, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{long + more, magic} {
			if !bytes.Contains(got, resp.AppendBulk(nil, want)) {
				t.Errorf("%.10s: %d bytes of answers, without %.20q", login, len(got), want)
			}
		}
		_ = c.Close()
	}
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

// Tracking counts as on or off once the server has accepted CLIENT TRACKING, in a transaction once EXEC has run it.
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
	p.expect("CLIENT REPLY ON") // the only one that the server gets
	p.inTransaction()
	if err := c.handle(requestOf("CLIENT", "REPLY", "OFF")); err != nil || p.upstream.clientReply.off {
		t.Errorf("within a transaction: %v", err)
	}
	p.expect("ECHO")
}

// If the server has no RESET the connection stays unchanged.
func TestRefusedReset(t *testing.T) {
	t.Parallel()
	path, _ := startGateway(t, startServer(t, "--rename-command", "RESET", ""))
	conn := clientOf(t, path).Conn()
	defer conn.Close()
	expect(t, conn, "SELECT 1", "OK", "SET k {long}", "OK", "RESET", "error: ERR unknown command",
		"MULTI", "OK", "APPEND k !", "QUEUED", "EXEC", "[1051]")
}

// Only the words after AUTH are credentials.
func TestHelloNames(t *testing.T) {
	t.Parallel()
	sock := startServer(t, "--requirepass", "secret")
	front, _ := startGateway(t, sock)
	c := clientOf(t, front, as("", "secret")).Conn()
	defer c.Close()
	expect(t, c, "HELLO 2 SETNAME auth AUTH default secret", "[server", "SET k {long}", "OK",
		"MULTI", "OK", "APPEND k x", "QUEUED", "EXEC", "[1051]")
}
