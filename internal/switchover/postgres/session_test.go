package postgres

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Names that the client made up are found in each message that has a text, whatever surrounds the text.
func TestNamesInMessages(t *testing.T) {
	parse := func(name, text string, types ...uint32) []byte {
		return appendParse(nil, statement{name: name, text: text, types: types})
	}
	for name, one := range map[string]struct {
		message []byte
		names   []string
		more    bool
	}{
		"query":                      {pg.AppendQuery(nil, "SET app.a = '1'"), []string{"app.a"}, false},
		"unnamed statement":          {parse("", "SET app.a = '1'"), []string{"app.a"}, false},
		"named statement":            {parse("s1", "SET app.a = '1'"), []string{"app.a"}, false},
		"named statement, call":      {parse("s1", "SELECT set_config('app.a', $1, false)", textType), []string{"app.a"}, false},
		"named statement, parameter": {parse("s1", "SELECT set_config($1, $2, false)", textType, textType), nil, true},
		"a quote in the name":        {parse("it's", "SET app.a = '1'"), []string{"app.a"}, false},
		"SET in the name":            {parse("SET app.b = '1'", "SELECT 1"), nil, false},
		"text in the types":          {parse("", "SELECT 1", 0x3b534554, 0x20612e62, 0x3d313b00), nil, false}, // ";SET a.b=1;"
	} {
		cut := pg.Cutter{Read: &requestTypes, Most: maxReadBytes}
		p, ok, err := cut.Next(one.message)
		if !ok || err != nil {
			t.Fatal(name, ok, err)
		}
		s := &session{}
		s.record(p)
		if !slices.Equal(s.custom.names, one.names) || s.custom.more != one.more {
			t.Errorf("%s: %q, more: %t", name, s.custom.names, s.custom.more)
		}
	}
}

// A client that goes on sending after a message that the gateway can't parse reads the error and then the end
// of the connection, not a reset, which may overtake the error.
func TestErrorWhileSending(t *testing.T) {
	server, address := listen(t)
	up, err := endpoint.ParsePostgres("postgres://" + address)
	if err != nil {
		t.Fatal(err)
	}
	g := NewGateway(Config{Name: "test", Upstream: up, MaxConns: 10, Stats: gateway.NewStats("test", "postgres"), Log: new(testenv.Log).Logger()})
	front, addr := listen(t)
	served := make(chan error, 2)
	go func() { served <- g.Serve(front) }()
	startup := pg.AppendStartup(nil, "user", "trusted")
	greeting := pg.Append(pg.AppendAuth(nil, pg.AuthOK, nil), pg.ReadyForQuery, []byte{idle})
	go func() {
		c, err := server.Accept()
		if err == nil {
			defer c.Close()
			if _, err = io.ReadFull(c, make([]byte, len(startup))); err == nil {
				_, err = c.Write(greeting)
			}
			_, _ = io.Copy(io.Discard, c)
		}
		served <- err
	}()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(startup); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, len(greeting))); err != nil {
		t.Fatal(err)
	}
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c, "Q\x00\x00\x00\x03"+strings.Repeat("x", 8*bufferBytes))
		if err == nil {
			err = gateway.CloseWrite(c)
		}
		sent <- err
	}()
	told, err := io.ReadAll(c)
	if err != nil || !strings.Contains(string(told), codeProtocol) {
		t.Errorf("the client was told %q: %v", told, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if err := g.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for range cap(served) {
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

func TestCancel(t *testing.T) {
	r := newRig(t, nil)
	c := r.connect(t, "scrammer", "")
	stopped := make(chan error, 1)
	go func() {
		_, err := c.PgConn().Exec(context.Background(), "SELECT pg_sleep(600)").ReadAll()
		stopped <- err
	}()
	testenv.Eventually(t, "the statement runs", func() bool {
		return r.node.SQL(t, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"
	})
	if err := c.PgConn().CancelRequest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("cancelled: %v", err)
	}
	ask(t, c, "SELECT 'still there'")
}

// pgbench and psql, with every protocol.
func TestPrograms(t *testing.T) {
	r := newRig(t, nil)
	r.run(t, "pgbench", "-i", "-q", "-s", "1", "--no-vacuum")
	for _, mode := range []string{"simple", "extended", "prepared"} {
		out := r.run(t, "pgbench", "-n", "-c", "8", "-j", "2", "-t", "10", "-M", mode)
		if !strings.Contains(out, "80/80") {
			t.Errorf("%s: %s", mode, out)
		}
	}
	out := r.run(t, "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", "CREATE TEMP TABLE x (a int)", "-c",
		"\\copy x from program 'seq 50000'", "-c", "SELECT sum(a) FROM x", "-c", "SELECT repeat('v', 5000000)", "-c", "\\copy x to '/dev/null'")
	if !strings.Contains(out, "1250025000") || len(out) < 5_000_000 {
		t.Errorf("psql: %.200s", out)
	}
	s := r.g.counts.transactions.Load()
	if s < 240 {
		t.Errorf("%d transactions were counted", s)
	}
}

// A client that does not speak PostgreSQL's protocol, or stops doing so, gets an error and is cut off. Others
// notice nothing.
func TestHostileClients(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxConns = 3 })
	c := r.connect(t, "trusted", "")
	for name, bytes := range map[string]string{
		"http":      "GET / HTTP/1.0\r\n\r\n",
		"long":      "\x00\xff\xff\xff\x00\x03\x00\x00",
		"short":     "\x00\x00\x00\x04\x00\x03\x00\x00",
		"no end":    "\x00\x00\x00\x0d\x00\x03\x00\x00user\x00",
		"cancel":    "\x00\x00\x00\x10\x04\xd2\x16\x2e\x00\x00\x00\x01\x00\x00\x00\x02",
		"cancelled": "\x00\x00\x00\x08\x04\xd2\x16\x2e",
	} {
		conn, err := net.Dial("tcp", net.JoinHostPort(r.host, r.port))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(bytes))
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		buf := make([]byte, 1000)
		for err == nil {
			_, err = conn.Read(buf)
		}
		if ne, ok := err.(net.Error); ok && ne.Timeout() {
			t.Errorf("%s: not cut off", name)
		}
		_ = conn.Close()
	}
	raw := c.PgConn().Conn()
	_, _ = raw.Write([]byte("Q\x00\x00\x00\x01"))
	buf := make([]byte, 1000)
	if n, _ := raw.Read(buf); !strings.Contains(string(buf[:n]), "08P01") {
		t.Errorf("a length of 1 is answered with %q", buf[:n])
	}
	var last *pgx.Conn
	testenv.Eventually(t, "the connections that were cut no longer count", func() (ok bool) {
		var err error
		last, err = pgx.Connect(t.Context(), r.url("trusted", ""))
		return err == nil
	})
	ask(t, last, "SELECT 'x'")
	_ = last.Close(t.Context())
}

// When the server is unreachable clients get an error in their protocol.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, newNode(t, testenv.PostgresConfig{}), "", nil)
	r.node.Stop()
	_, err := pgx.Connect(t.Context(), r.url("trusted", ""))
	if err == nil || !strings.Contains(err.Error(), "57P03") {
		t.Errorf("%v", err)
	}
	r.node.Start(t)
	ask(t, r.connect(t, "trusted", ""), "SELECT 'x'")
}
