// Package transcript lets tests run without the servers that they use: the answers of a real server are
// recorded once, and played back to the same test later.
//
//	addr := transcript.Server(t, "unix", func() string { start a server for t, and return the path of its socket })
//
// With -short, when no program may run, the transcript is played to the test; a test without a transcript
// is skipped. Without -short tests use the server itself, without a relay. CINCH_RECORD=1 records:
//
//	CINCH_RECORD=1 go test ./internal/gateway/redis -run '^TestStreamInfo$'
//
// A transcript is testdata/transcripts/NAME.txt in the directory of the test. Each line holds the bytes
// that one side sent on one connection (s1c2 is the second connection with traffic to the first server of
// the test):
//
//	s1c1> "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
//	s1c1< "$-1\r\n"
//	s1c1<
//
// The last line means that the server closed the connection. Closing at the end of the test is not
// recorded. The code under test must send the recorded requests byte for byte, and the test fails if a
// recorded request is never sent. A recorded answer is sent as soon as all requests above it have been
// received, on any connection, so that one connection sees the effects of another. Repeated requests of a
// polling test with an unchanged answer are recorded once. Tests whose requests hold random bytes, times or
// ports, or depend on the order of goroutines, can't be played back.
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

// Server returns the address of a server for t, on "unix" or "tcp": the result of start, a relay in front
// of it that records, or a player.
func Server(t testing.TB, network string, start func() (addr string)) (addr string) {
	t.Helper()
	file := filepath.Join("testdata", "transcripts", strings.ReplaceAll(t.Name(), "/", "-")+".txt")
	if os.Getenv("CINCH_RECORD") == "1" {
		r := of(t, file, func() session { return newRecorder(t, file) }).(*recorder)
		up, server := start(), r.next()
		t.Cleanup(func() { r.stops(server) }) // runs before the clean-up functions of start
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

// session is a recorder or a player. All servers of a test share one.
type session interface{ end() }

var (
	sessionsMu sync.Mutex
	sessions   = map[string]session{} // by file name
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
	closed  bool // the server closed the connection
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

// counter numbers the servers of a test.
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
