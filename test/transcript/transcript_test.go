package transcript

import (
	"io"
	"net"
	"reflect"
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

// Connections that begin alike are told apart by what they say later, questions may be repeated, and the answer that another
// connection causes waits for it.
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
	say(t, setter, "hello\n", "1\n") // it takes the place of the first, until it says more
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

// What was not recorded fails the test, as does what is left unsaid.
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

// Lines are read as they are written, and repeats are left out.
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
