package postgres

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestLogins(t *testing.T) {
	r := newRig(t, nil)
	for user := range passwords {
		c := r.connect(t, user, "sslmode=prefer&application_name=logins")
		if got := ask(t, c, "SELECT current_user || ' ' || current_setting('application_name')"); got != user+" logins" {
			t.Errorf("%s is %s", user, got)
		}
	}
	for _, user := range []string{"scrammer", "md5er", "plain"} {
		_, err := pgx.Connect(t.Context(), strings.Replace(r.url(user, ""), "secret", "wrong", 1))
		if err == nil || !strings.Contains(err.Error(), "28P01") {
			t.Errorf("%s with a wrong password: %v", user, err)
		}
	}
}

// TLS on both hops: the server offers SCRAM bound to a channel, and it is not used.
func TestTLS(t *testing.T) {
	a := testenv.NewAuthority(t)
	own := a.Issue(t, "gateway")
	r := newRig(t, func(c *Config) { c.TLS = own.TLS(t) })
	for _, mode := range []string{"verify-full&sslrootcert=" + a.File, "require"} {
		c := r.connect(t, "scrammer", "sslmode="+mode)
		if _, ok := c.PgConn().Conn().(*tls.Conn); !ok {
			t.Errorf("%s: not encrypted", mode)
		}
		ask(t, c, "SELECT 'x'")
	}
	_, err := pgx.Connect(t.Context(), r.url("scrammer", "sslmode=disable"))
	if err == nil || !strings.Contains(err.Error(), "by TLS only") {
		t.Errorf("without TLS: %v", err)
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
