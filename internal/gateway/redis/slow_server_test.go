package redis

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// slowly returns a client of a session and its server, which the test plays.
func slowly(t *testing.T, change func(*Config)) (client net.Conn, server *scriptedServer) {
	t.Helper()
	cfg := Config{}
	change(&cfg)
	return slowlyAt(t, NewGateway(cfg))
}

// slowlyAt is slowly for a gateway that is shared with others.
func slowlyAt(t *testing.T, g *Gateway) (client net.Conn, server *scriptedServer) {
	t.Helper()
	client, side := socketPair(t)
	up, down := socketPair(t)
	ended := make(chan struct{})
	s := newSession(g, side, up, time.Now())
	go func() { defer close(ended); s.Run() }()
	t.Cleanup(func() {
		_, _, _ = client.Close(), down.Close(), s.Close()
		<-ended
	})
	for _, c := range []net.Conn{client, down} {
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	}
	return client, &scriptedServer{t: t, conn: down, in: bufio.NewReader(down)}
}

// scriptedServer sends what the test tells it to, piece by piece.
type scriptedServer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// next reads a request.
func (s *scriptedServer) next() []string {
	s.t.Helper()
	var n int
	if _, err := fmt.Fscanf(s.in, "*%d\r\n", &n); err != nil {
		s.t.Fatal("no request:", err)
	}
	args := make([]string, n)
	for i := range args {
		var size int
		if _, err := fmt.Fscanf(s.in, "$%d\r\n", &size); err != nil {
			s.t.Fatal("no argument:", err)
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(s.in, b); err != nil {
			s.t.Fatal(err)
		}
		args[i] = string(b[:size])
	}
	return args
}

// say sends pieces of a reply, with a pause in front of each but the first.
func (s *scriptedServer) say(pieces ...string) {
	s.t.Helper()
	for i, p := range pieces {
		if i > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		if _, err := io.WriteString(s.conn, p); err != nil {
			s.t.Fatal(err)
		}
	}
}

// If a rule for the next value depends on the database that EXEC selects, the value waits for the whole reply
// of EXEC, however it arrives.
func TestSelectedBySlowExec(t *testing.T) {
	t.Parallel()
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Space: "1", Setting: codec.Setting{Codec: codec.Zstd, Level: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	client, server := slowly(t, func(c *Config) { c.Policy = rules })
	var all []byte
	for _, words := range []string{"MULTI", "SELECT 1", "EXEC", "SET k " + strings.Repeat("menu,", 200)} {
		all = resp.AppendCommand(all, strings.Fields(words)...)
	}
	write(t, client, string(all))
	server.next()
	server.say("+OK\r\n")
	server.next()
	server.say("+QUEUED\r\n")
	server.next()
	server.say("*1\r\n", "+OK\r\n")
	if set := server.next(); set[0] != "SET" || !envelope.IsSealed([]byte(set[2])) {
		t.Errorf("sent behind SELECT 1: %.60q", set)
	}
}

// The gateway waits for the whole acknowledgement before it decides whether the client is a subscriber.
func TestSubscribedSlowly(t *testing.T) {
	t.Parallel()
	client, server := slowly(t, func(*Config) {})
	all := resp.AppendCommand(resp.AppendCommand(nil, "SUBSCRIBE", "a"), "STRLEN", "k")
	all = resp.AppendCommand(all, "APPEND", "k", "x")
	write(t, client, string(all))
	server.next()
	server.say("*3\r\n", "$9\r\nsubscribe\r\n", "$1\r\na\r\n", ":1\r\n")
	for _, want := range []string{"STRLEN", "APPEND"} {
		if got := server.next(); got[0] != want {
			t.Errorf("a subscriber's %s was sent as %.40q", want, got)
		}
		server.say("-ERR only (P|S)SUBSCRIBE\r\n")
	}
}

// A server that sends bytes which are not a reply ends the session. The log names the reason and the client
// once.
func TestNoReplyIsLogged(t *testing.T) {
	t.Parallel()
	var log testenv.Log
	stats := gateway.NewStats("test", "redis")
	client, server := slowly(t, func(c *Config) {
		c.Stats, c.Log = stats, slog.New(slog.NewTextHandler(&log, nil))
	})
	write(t, client, string(resp.AppendCommand(nil, "GET", "k")))
	server.next()
	server.say("?nonsense\r\n")
	if b, err := io.ReadAll(client); err != nil || len(b) > 0 {
		t.Errorf("the client got %q, %v", b, err)
	}
	if errs := stats.Snapshot().Errors; errs["upstream_protocol"] != 1 || len(errs) != 1 {
		t.Errorf("counted %v", errs)
	}
	if log.Count("upstream sent invalid data") != 1 || log.Count("client=") != 1 {
		t.Errorf("logged %s", log.String())
	}
}
