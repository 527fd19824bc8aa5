package transcript

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
)

const played = `# as in a file
s1c1> "hello\n"
s1c1< "1\n"
s1c1> "ask\n"
s1c1< "no\n"
s1c2> "hello\n"
s1c2< "2\n"
s1c2> "set\n"
s1c2< "ok\n"
s1c1> "ask\n"
s1c1< "yes\n"
s1c1<
`

// Connections that begin the same are told apart by later requests. Requests may be repeated, and an answer
// that another connection causes is sent only after that connection's request.
func TestPlay(t *testing.T) {
	p := playerOf(t, played)
	addr := listen(t, "tcp", p.next(), p.serve)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	setter, asker := dial(), dial()
	say(t, setter, "hello\n", "1\n") // it plays the first connection until it sends more
	say(t, asker, "hello\n", "2\n")
	say(t, setter, "set\n", "")
	say(t, asker, "ask\n", "no\n")
	say(t, setter, "", "ok\n")
	say(t, asker, "ask\n", "yes\n")
	if rest, err := io.ReadAll(asker); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v, where the server closed it", rest, err)
	}
	_ = setter.Close()
	p.end()
}

func playerOf(t *testing.T, text string) *player {
	t.Helper()
	p, err := newPlayer(t, "a file", text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func say(t *testing.T, c net.Conn, request, want string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("%q is answered by %q, %v, want %q", request, got, err, want)
	}
}

// A request that was not recorded fails the test, as does a recorded one that is not sent.
func TestPlayFails(t *testing.T) {
	for what, request := range map[string]string{"something else": "hello\nput\n", "too little": "hello\n"} {
		failing := &failingTB{TB: t}
		p := playerOf(t, "s1c1> \"hello\\n\"\ns1c1< \"1\\n\"\ns1c1> \"set\\n\"")
		p.t = failing
		client, server := net.Pipe()
		go func() {
			_, _ = io.WriteString(client, request)
			_, _ = io.ReadFull(client, make([]byte, 2))
			_ = client.Close()
		}()
		p.serve(1, server)
		p.end()
		if !failing.failed {
			t.Errorf("%s passes", what)
		}
	}
}

type failingTB struct {
	testing.TB
	failed bool
}

func (f *failingTB) Errorf(string, ...any) { f.failed = true }

// Lines are parsed back as they were written, and repeats are removed.
func TestLines(t *testing.T) {
	lines, err := parse(played)
	if err != nil {
		t.Fatal(err)
	}
	if got := withoutRepeats(lines); !reflect.DeepEqual(got, lines) {
		t.Errorf("%v", got)
	}
	if got := withoutRepeats(append(lines[:4:4], lines[2:]...)); !reflect.DeepEqual(got, lines) {
		t.Errorf("%v", got)
	}
	for _, l := range lines {
		if again, err := parse(l.String()); err != nil || !reflect.DeepEqual(again, []line{l}) {
			t.Errorf("%s is read as %v, %v", l, again, err)
		}
	}
	for _, bad := range []string{"", "s1c1", "s1c1> x", "< \"x\""} {
		if lines, err := parse(bad); err == nil {
			t.Errorf("%q is read as %v", bad, lines)
		}
	}
}

// A connection that the server closes during a test is recorded as closed, but not one that ends with the
// server: played back, it would be closed as soon as the last request has been received, while the test may
// still use it.
func TestRecordLeavesOutTheEnd(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("CINCH_RECORD", "1")
	t.Run("recorded", func(t *testing.T) {
		var left, closed net.Conn
		t.Cleanup(func() { _, _ = left.Close(), closed.Close() }) // runs after the server has ended
		addr := Server(t, "tcp", func() string { return startGreeter(t, func() { _, _ = io.ReadAll(left) }) })
		for _, c := range []*net.Conn{&left, &closed} {
			var err error
			if *c, err = net.Dial("tcp", addr); err != nil {
				t.Fatal(err)
			}
			say(t, *c, "hello\n", "welcome\n")
		}
		say(t, closed, "quit\n", "")
		_, _ = io.ReadAll(closed)
	})
	text, err := os.ReadFile("testdata/transcripts/TestRecordLeavesOutTheEnd-recorded.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, lines, _ := strings.Cut(string(text), "\n")
	if want := `s1c1> "hello\n"
s1c1< "welcome\n"
s1c2> "hello\n"
s1c2< "welcome\n"
s1c2> "quit\n"
s1c2<
`; lines != want {
		t.Errorf("%s\nwant\n%s", lines, want)
	}
}

// startGreeter starts a server that closes a connection after its second request. The server is stopped
// when the test ends, and ended is called then.
func startGreeter(t *testing.T, ended func()) (addr string) {
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(func() { end(); ended() })
	return listen(t, "tcp", 0, func(_ int, c net.Conn) {
		stop := context.AfterFunc(ctx, func() { _ = c.Close() })
		defer stop()
		defer c.Close()
		in := bufio.NewReader(c)
		_, _ = in.ReadString('\n')
		_, _ = io.WriteString(c, "welcome\n")
		_, _ = in.ReadString('\n')
	})
}
