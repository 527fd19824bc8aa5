package postgres

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The files in testdata/sessions are sessions of pgx with PostgreSQL 15 itself, without a gateway. To record
// them again:
//
//	go test ./internal/switchover/postgres -run TestRecordedSessions -record
var record = flag.Bool("record", false, "record testdata/sessions from a real server")

// recordings holds a user and its work for each file.
var recordings = map[string]struct {
	user string
	work func(ctx context.Context, c *pgx.Conn) error
}{
	"trusted":  {"trusted", work},
	"plain":    {"plain", work},
	"md5":      {"md5er", work},
	"scram":    {"scrammer", work},
	"copy":     {"trusted", copies},
	"notify":   {"trusted", notifies},
	"pipeline": {"scrammer", pipelines},
	"refused":  {"refused", work},
}

// work runs a transaction of simple and prepared statements, and one that fails.
func work(ctx context.Context, c *pgx.Conn) error {
	for _, text := range []string{"SET search_path TO public; BEGIN", "CREATE TEMP TABLE x (a int)", "INSERT INTO x SELECT generate_series(1, 100)", "COMMIT"} {
		if _, err := c.Exec(ctx, text, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	for i := range 3 {
		if _, err := c.Exec(ctx, "UPDATE x SET a = a + 1 WHERE a > $1", i); err != nil {
			return err
		}
	}
	if _, err := c.Exec(ctx, "SELECT 1/0"); err == nil {
		return errors.New("a division by zero returned no error")
	}
	return nil
}

func copies(ctx context.Context, c *pgx.Conn) error {
	if _, err := c.Exec(ctx, "CREATE TEMP TABLE x (a int, b text)"); err != nil {
		return err
	}
	rows := make([][]any, 200)
	for i := range rows {
		rows[i] = []any{i, strings.Repeat("v", i)}
	}
	if _, err := c.CopyFrom(ctx, pgx.Identifier{"x"}, []string{"a", "b"}, pgx.CopyFromRows(rows)); err != nil {
		return err
	}
	_, err := c.PgConn().CopyTo(ctx, io.Discard, "COPY x TO STDOUT")
	return err
}

func notifies(ctx context.Context, c *pgx.Conn) error {
	for _, text := range []string{"LISTEN news", "NOTIFY news, 'one'", "UNLISTEN news"} {
		if _, err := c.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func pipelines(ctx context.Context, c *pgx.Conn) error {
	batch := &pgx.Batch{}
	for i := range 20 {
		batch.Queue("SELECT $1::int, repeat('x', $1)", i)
	}
	return c.SendBatch(ctx, batch).Close()
}

// step holds what one side of a session sends before the other side replies.
type step struct {
	client bool
	bytes  string
}

func sessionFile(name string) string { return filepath.Join("testdata", "sessions", name) }

func readSession(t *testing.T, name string) (steps []step) {
	t.Helper()
	f, err := os.Open(sessionFile(name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		side, quoted, _ := strings.Cut(lines.Text(), " ")
		bytes, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		steps = append(steps, step{side == ">", bytes})
	}
	if len(steps) < 4 || lines.Err() != nil {
		t.Fatalf("%s: %d steps: %v", name, len(steps), lines.Err())
	}
	return steps
}

// Sessions recorded with the server itself, one for each login method, pass through the gateway with the same
// bytes in both directions.
func TestRecordedSessions(t *testing.T) {
	if *record {
		recordSessions(t)
	}
	for name := range recordings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steps := readSession(t, name)
			server, address := listen(t)
			up, err := endpoint.ParsePostgres("postgres://" + address)
			if err != nil {
				t.Fatal(err)
			}
			g := NewGateway(Config{Name: "test", Upstream: up, MaxConns: 10, Stats: gateway.NewStats("test", "postgres"), Log: new(testenv.Log).Logger()})
			front, addr := listen(t)
			var all sync.WaitGroup
			all.Go(func() { _ = g.Serve(front) })
			all.Go(func() {
				c, err := server.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				if err := play(c, steps, false); err != nil {
					t.Errorf("the server's side: %v", err)
				}
			})
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := play(c, steps, true); err != nil {
				t.Errorf("the client's side: %v", err)
			}
			if err := g.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			all.Wait()
		})
	}
}

func listen(t *testing.T) (l net.Listener, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, l.Addr().String()
}

// play sends one side of a session, and compares the bytes of the other side with the recording. It ends when the
// other side does.
func play(c net.Conn, steps []step, client bool) error {
	for i, s := range steps {
		if s.client == client {
			if _, err := io.WriteString(c, s.bytes); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
			continue
		}
		got := make([]byte, len(s.bytes))
		n, err := io.ReadFull(c, got)
		if string(got) != s.bytes {
			return fmt.Errorf("step %d: %.200q instead of %.200q: %w", i, got[:n], s.bytes, err)
		}
	}
	if rest, _ := io.ReadAll(c); len(rest) > 0 {
		return fmt.Errorf("behind the last step: %.200q", rest)
	}
	return nil
}

// recordSessions records all sessions.
func recordSessions(t *testing.T) {
	node := newNode(t, testenv.PostgresConfig{})
	if err := os.MkdirAll(sessionFile(""), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, r := range recordings {
		l, addr := listen(t)
		var steps []step
		done := make(chan struct{})
		go func() {
			defer close(done)
			steps = tap(l, node.Addr)
		}()
		login, password := r.user, passwords[r.user]
		if login == "refused" {
			login, password = "scrammer", "wrong"
		}
		cfg, err := pgx.ParseConfig("postgres://" + login + "@" + addr + "/postgres?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		cfg.Password = password
		c, err := pgx.ConnectConfig(t.Context(), cfg)
		if err == nil {
			err = r.work(t.Context(), c)
			_ = c.Close(t.Context())
		} else if r.user == "refused" && strings.Contains(err.Error(), "28P01") {
			err = nil
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		<-done
		var text strings.Builder
		for _, s := range steps {
			fmt.Fprintf(&text, "%s %s\n", map[bool]string{true: ">", false: "<"}[s.client], strconv.QuoteToASCII(s.bytes))
		}
		if err := os.WriteFile(sessionFile(name), []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tap forwards one connection to a server, and returns what both sides sent, in order.
func tap(l net.Listener, server string) (steps []step) {
	client, err := l.Accept()
	if err != nil {
		return nil
	}
	defer client.Close()
	up, err := net.Dial("tcp", server)
	if err != nil {
		return nil
	}
	defer up.Close()
	var mu sync.Mutex
	pass := func(to, from net.Conn, ofClient bool) {
		b := make([]byte, 64<<10)
		for {
			n, err := from.Read(b)
			if n > 0 {
				mu.Lock()
				if last := len(steps) - 1; last >= 0 && steps[last].client == ofClient {
					steps[last].bytes += string(b[:n])
				} else {
					steps = append(steps, step{ofClient, string(b[:n])})
				}
				mu.Unlock()
				_, _ = to.Write(b[:n])
			}
			if err != nil {
				_ = to.(*net.TCPConn).CloseWrite()
				return
			}
		}
	}
	var both sync.WaitGroup
	both.Go(func() { pass(up, client, true) })
	both.Go(func() { pass(client, up, false) })
	both.Wait()
	return slices.Clone(steps)
}
