package postgres

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// slowWrite is a connection whose first write returns only when pgconn, which then reads in the background,
// reads for the second time.
type slowWrite struct {
	net.Conn
	reads  atomic.Int32
	second chan struct{}
	wrote  atomic.Bool
}

func (c *slowWrite) Read(b []byte) (int, error) {
	if c.reads.Add(1) == 2 {
		close(c.second)
	}
	return c.Conn.Read(b)
}

func (c *slowWrite) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if !c.wrote.Swap(true) {
		<-c.second
	}
	return n, err
}

// The answer to the first query reaches the new owner of a connection, although pgconn was reading in the
// background at the login.
func TestHijackAfterSlowLogin(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	go func() {
		defer server.Close()
		head := make([]byte, pg.MaxStartupBytes)
		if _, err := server.Read(head); err != nil {
			return
		}
		ready := pg.Append(nil, pg.ReadyForQuery, []byte{idle})
		if _, err := server.Write(append(pg.AppendAuth(nil, 0, nil), ready...)); err != nil {
			return
		}
		for in := make([]byte, 1000); ; { // each query
			if _, err := server.Read(in); err != nil {
				return
			}
			if _, err := server.Write(append(pg.Append(nil, pg.EmptyQueryResponse), ready...)); err != nil {
				return
			}
		}
	}()
	c, err := pgconn.ParseConfig("host=localhost user=u sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	slow := &slowWrite{Conn: client, second: make(chan struct{})}
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) { return slow, nil }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	made, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	own, err := hijack(ctx, made)
	if err != nil {
		t.Fatal(err)
	}
	deadline, _ := ctx.Deadline()
	if err := own.Conn.SetDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	if _, err := own.Conn.Write(pg.AppendQuery(nil, "SELECT")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 5+6)
	if _, err := io.ReadFull(own.Conn, answer); err != nil {
		t.Fatalf("the answer was lost: %v", err)
	}
}
