package postgres

import (
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
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

// loggingInAt returns a session whose login begins at a server, and the other ends of its two connections.
func loggingInAt(t *testing.T, g *Gateway) (s *session, client, server net.Conn) {
	t.Helper()
	client, accepted := net.Pipe()
	server, upstream := net.Pipe()
	s = g.newSession(accepted).(*session)
	s.startup = pg.AppendStartup(nil, "user", "slow")
	if !g.register(s) {
		t.Fatal("not registered")
	}
	go func() { // as Run does
		defer close(s.done)
		defer g.forget(s)
		defer s.Close()
		if _, err := s.logInAt(&backend{conn: upstream}); err != nil {
			s.refuse(err)
		}
	}()
	if _, err := io.ReadFull(server, make([]byte, len(s.startup))); err != nil {
		t.Fatal(err)
	}
	return s, client, server
}

// A client that does not answer an authentication request delays a hold by authTime at most, and is ended
// with an error. LoginTimeout and the time for open transactions are longer.
func TestHoldEndsUnansweredLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGateway(Config{Name: "test", LoginTimeout: 2 * time.Hour})
		_, client, server := loggingInAt(t, g)
		request := pg.AppendAuth(nil, pg.AuthCleartext, nil)
		if _, err := server.Write(request); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(client, make([]byte, len(request))); err != nil {
			t.Fatal(err)
		}
		told := make(chan string, 1)
		go func() {
			b, _ := io.ReadAll(client)
			told <- string(b)
		}()
		began := time.Now()
		st, err := g.Hold(t.Context(), control.HoldRequest{Within: 3600})
		if err != nil || len(st.Sessions) != 0 {
			t.Errorf("%d sessions are held: %v", len(st.Sessions), err)
		}
		if took := time.Since(began); took != authTime {
			t.Errorf("the hold began after %v", took)
		}
		if text := <-told; !strings.Contains(text, codeShutdown) {
			t.Errorf("the client was told %q", text)
		}
		if _, err := g.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A login that waits for the server has as much time as an open transaction.
func TestAwaitLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for took, want := range map[time.Duration]bool{59 * time.Second: true, 61 * time.Second: false} {
			s := NewGateway(Config{Name: "test"}).newSession(nil).(*session)
			within, cancel := context.WithTimeout(t.Context(), time.Minute)
			answers, stop := context.WithTimeout(within, authTime)
			time.AfterFunc(took, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.ready = true
				s.changed.Broadcast()
			})
			if got := s.awaitIdle(within, answers); got != want {
				t.Errorf("after %v: %t", took, got)
			}
			stop()
			cancel()
		}
	})
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
