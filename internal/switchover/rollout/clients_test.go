package rollout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

// reconnecting is a client that keeps its connection, and looks the address up when it has to connect again,
// as with DNS.
type reconnecting struct {
	number     int
	address    string // file
	committed  []int  // numbers whose commit the server has confirmed
	unknown    []int  // numbers whose connection broke before that
	reconnects int
}

func (r *reconnecting) work(ctx context.Context, t *testing.T) {
	var c *pgx.Conn
	for number := 0; ctx.Err() == nil; number++ {
		if c == nil || c.IsClosed() {
			if c != nil {
				r.reconnects++
			}
			if c = r.connect(ctx); c == nil {
				return
			}
		}
		_, err := c.PgConn().Exec(context.Background(), fmt.Sprintf(`BEGIN; INSERT INTO entry VALUES (%d, %d); UPDATE account SET balance = balance - 1 WHERE id = %d;
			UPDATE account SET balance = balance + 1 WHERE id = 19; COMMIT`, r.number, number, r.number)).ReadAll()
		var failed *pgconn.PgError
		switch {
		case err == nil:
			r.committed = append(r.committed, number)
		// The server may also be shutting down.
		case c.IsClosed(), errors.As(err, &failed) && strings.HasPrefix(failed.Code, "57P"):
			_ = c.Close(context.Background())
			r.unknown = append(r.unknown, number)
		default:
			t.Errorf("client %d: %v", r.number, err)
			return
		}
		_ = pauseFor(ctx, pollPause/10) // leave CPU time to others
	}
	_ = c.Close(context.Background())
}

// connect tries the current address until a server takes writes there.
func (r *reconnecting) connect(ctx context.Context) *pgx.Conn {
	for ctx.Err() == nil {
		url, _ := os.ReadFile(r.address)
		c, err := pgx.Connect(ctx, string(url))
		if err == nil {
			return c
		}
		_ = pauseFor(ctx, pollPause/10)
	}
	return nil
}

// Without a gateway, hooks direct clients to the new primary. Each has to connect again once; all confirmed
// commits are there, and nothing twice.
func TestWithoutGateway(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	a := &c.Nodes[0]
	// Table entry accepts the same number twice.
	mustExec(t, a, accounts+"; CREATE TABLE entry (client int, number int)")
	address := filepath.Join(t.TempDir(), "address")
	if err := os.WriteFile(address, []byte(a.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Hooks.Move = []string{"sh", "-c", `printf %s "$CINCH_NEW_URL" > "$0"`, address}
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	clients := make([]*reconnecting, 4)
	for i := range clients {
		clients[i] = &reconnecting{number: i, address: address}
		working.Go(func() { clients[i].work(ctx, t) })
	}
	err := (&Rollout{Cell: c, Yes: true, Tell: func(node, text string) { t.Log(node, text) }}).Run(t.Context())
	cancel()
	working.Wait()
	if err != nil {
		t.Fatal(err)
	}
	times := entries(t, a.Replacement)
	for _, client := range clients {
		t.Logf("client %d: %d committed, %d unknown, %d reconnects", client.number, len(client.committed), len(client.unknown), client.reconnects)
		if client.reconnects > 1 || len(client.committed) == 0 {
			t.Errorf("client %d: %d reconnects, %d committed", client.number, client.reconnects, len(client.committed))
		}
		for _, number := range client.committed {
			if n := times[[2]int{client.number, number}]; n != 1 {
				t.Errorf("client %d: %d was committed, and is there %d times", client.number, number, n)
			}
		}
		for _, number := range client.unknown {
			if n := times[[2]int{client.number, number}]; n > 1 {
				t.Errorf("client %d: %d is there %d times", client.number, number, n)
			}
		}
	}
	if sum, err := value[int](t.Context(), a.Replacement, "SELECT sum(balance) FROM account"); err != nil || sum != 2000 {
		t.Errorf("%d in accounts, %v", sum, err)
	}
}

// entries returns how often each transaction of each client is stored.
func entries(t *testing.T, n *Node) map[[2]int]int {
	t.Helper()
	times := map[[2]int]int{}
	err := n.ask(t.Context(), func(c *pgx.Conn) error {
		rows, err := c.Query(t.Context(), "SELECT client, number FROM entry")
		if err != nil {
			return err
		}
		var e [2]int
		_, err = pgx.ForEachRow(rows, []any{&e[0], &e[1]}, func() error { times[e]++; return nil })
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// The roll-out's own credentials are not passed on, wherever the URL has them.
func TestTarget(t *testing.T) {
	for from, want := range map[string]string{
		"postgres://postgres:secret@db2:5433/app?sslmode=require":                               "postgres://db2:5433?sslmode=require",
		"postgres://db2/app?user=u&password=secret&dbname=x&sslpassword=s&passfile=f&port=5433": "postgres://db2?port=5433",
		"postgres:///app?host=/run/postgresql&password=secret":                                  "postgres:///?host=%2Frun%2Fpostgresql",
	} {
		if at, err := target(&Node{URL: from}); err != nil || at != want {
			t.Errorf("%s leads to %s, not %s: %v", from, at, want, err)
		}
	}
}

// Only a refusal by the gateway closes the gate. Another server's response does not, nor does the end of the
// roll-out itself.
func TestReached(t *testing.T) {
	x := through{&control.Client{Admin: "gw:9470"}, &Cell{}}
	to := &Node{Name: "a2"}
	mustSay(t, asGate(x.reached(t.Context(), to, &control.Refusal{Message: "no"})), ErrGate, "the gateway at gw:9470 can't move clients to a2: no")
	other := errors.New("404 Not Found")
	err := asGate(x.reached(t.Context(), to, other))
	if mustSay(t, err, other, "ask the gateway at gw:9470"); errors.Is(err, ErrGate) {
		t.Errorf("%v must not be an ErrGate", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errKilled)
	if err := asGate(x.reached(ctx, to, context.Canceled)); !errors.Is(err, errKilled) || errors.Is(err, ErrGate) {
		t.Error(err)
	}
}
