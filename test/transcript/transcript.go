// Package transcript lets tests run without the server that they talk to: what a real server answered is recorded once, and
// played back to the same test later.
//
//	addr := transcript.Server(t, "unix", func() string { start a server for t, and return the path of its socket })
//
// With -short, when no program may run, a test is played its transcript; one without a transcript is skipped. Without -short tests
// talk to the server itself, with nothing between. CINCH_RECORD=1 records:
//
//	CINCH_RECORD=1 go test ./internal/gateway/redis -run '^TestStreamInfo$'
//
// A transcript is testdata/transcripts/NAME.txt in the directory of the test. Each line is what one side sent on one connection
// (s1c2 is the second connection to say something to the first server of the test):
//
//	s1c1> "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
//	s1c1< "$-1\r\n"
//	s1c1<
//
// The last line says that the server closed the connection. When it closes all at the test's end it is not recorded. What the code
// under test sends has to be what was recorded, byte for byte, and the test fails if anything recorded is left unsaid. What the server
// said is sent as soon as every request above it has come, on whichever connection, so that one connection learns what another one
// caused. What a test that polls asks again, and what is answered as before, is there once. Tests whose requests hold random bytes,
// times or ports, or that depend on which goroutine comes first, can't be played back.
package transcript

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Server returns the address of a server for t, on "unix" or "tcp": what start returns, or a relay in front of it that records,
// or what plays back.
func Server(t testing.TB, network string, start func() (addr string)) (addr string) {
	t.Helper()
	file := filepath.Join("testdata", "transcripts", strings.ReplaceAll(t.Name(), "/", "-")+".txt")
	if os.Getenv("CINCH_RECORD") == "1" {
		r := of(t, file, func() session { return newRecorder(t, file) }).(*recorder)
		up, server := start(), r.next()
		t.Cleanup(func() { r.stops(server) }) // before what start has left to do at the end
		return listen(t, network, server, func(server int, c net.Conn) { r.serve(server, c, network, up) })
	}
	if !testing.Short() {
		return start()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Skip("needs a server, and has no transcript of one; run it without -short")
	}
	p := of(t, file, func() session {
		p, err := newPlayer(t, file, string(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}).(*player)
	return listen(t, network, p.next(), p.serve)
}

// session is a recorder or a player. A test that starts several servers has one.
type session interface{ end() }

var (
	sessionsMu sync.Mutex
	sessions   = map[string]session{} // by file
)

func of(t testing.TB, file string, begin func() session) session {
	sessionsMu.Lock()
	defer sessionsMu.Unlock()
	if s := sessions[file]; s != nil {
		return s
	}
	s := begin()
	sessions[file] = s
	t.Cleanup(func() {
		s.end()
		sessionsMu.Lock()
		defer sessionsMu.Unlock()
		delete(sessions, file)
	})
	return s
}

func listen(t testing.TB, network string, server int, handle func(server int, c net.Conn)) (addr string) {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go handle(server, c)
		}
	}()
	return l.Addr().String()
}

// line holds the bytes that one side sent before the other side sent any.
type line struct {
	conn    string // s1c2
	request bool
	text    []byte
	closed  bool // by the server
}

func (l line) String() string {
	switch {
	case l.closed:
		return l.conn + "<"
	case l.request:
		return l.conn + "> " + strconv.Quote(string(l.text))
	}
	return l.conn + "< " + strconv.Quote(string(l.text))
}

// counter counts the servers of a test.
type counter struct {
	mu      sync.Mutex
	servers int
}

func (c *counter) next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers++
	return c.servers
}
