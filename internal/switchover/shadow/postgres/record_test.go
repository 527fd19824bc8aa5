package postgres

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A recording leaves production's data at both targets, at any speed, and they answer as production did:
// simple and prepared statements, pipelines, transactions, errors, COPY in and out. It contains no password.
func TestReplayHasProductionsData(t *testing.T) {
	const schema = "CREATE TABLE t (id int PRIMARY KEY, name text UNIQUE, n int); CREATE TABLE accounts AS SELECT g AS id, 100 AS money FROM generate_series(1, 8) g"
	t.Parallel()
	b := newServers(t, schema)
	up := parsed(t, b.production)
	tape := shadowtest.Record(t, "postgres", shadow.RecorderConfig{Production: up, Opener: Opener{}, Filters: NewFilters()})
	b.url = b.at(tape.Addr)
	var clients sync.WaitGroup
	for i := range 4 {
		c := b.client(t)
		clients.Go(func() { recordedWork(t, c, i) })
	}
	clients.Wait()
	size := tape.Finish(t)
	if all := tape.Bytes(t); size.Partial > 0 || bytes.Contains(all, []byte("s3cret")) || !bytes.Contains(all, []byte("ALTER ROLE")) {
		t.Errorf("%+v, or a password is in the recording", size)
	}
	// As fast as possible, and ten times production's speed.
	for i, speed := range codectest.Amount(nil, []float64{0}, []float64{0, 10}) {
		for _, target := range []*testenv.SQLServer{b.control, b.test} {
			if i > 0 {
				exec(t, target, "DROP TABLE t, accounts")
				exec(t, target, schema)
			}
		}
		cfg := shadow.Config{Control: parsed(t, b.control), Test: parsed(t, b.test), Batch: 200 * time.Millisecond, Wait: 10 * time.Millisecond, Patience: 20 * time.Second, Batches: 1 << 20}
		protocol, err := New(t.Context(), endpoint.Upstream{}, cfg.Control, Options{})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Protocol = protocol
		r := tape.Replay(t, speed, cfg)
		protocol.Close()
		if r.Compared.Equal < 300 || r.Compared.Diverged > 0 || r.Ended != "the recording is over" {
			t.Errorf("speed %g: %+v, %s", speed, r.Compared, r.Ended)
		}
		b.same(t, "t", "accounts")
	}
}

func parsed(t *testing.T, s *testenv.SQLServer) endpoint.Upstream {
	t.Helper()
	up, err := endpoint.ParsePostgres(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return up
}

// recordedWork works on the client's own rows.
func recordedWork(t *testing.T, c *pgx.Conn, client int) {
	ctx := t.Context()
	for i := range 25 {
		id := client*1000 + i
		if _, err := c.Exec(ctx, "INSERT INTO t VALUES ($1, $2, $3)", id, fmt.Sprint("name", id), i); err != nil {
			t.Error(err)
		}
		_, _ = c.Exec(ctx, "INSERT INTO t VALUES ($1, 'again', 1)", id) // refused
		_, _ = c.PgConn().Exec(ctx, fmt.Sprintf("SELECT name FROM t WHERE id = %d", id)).ReadAll()
		tx, err := c.Begin(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = tx.Exec(ctx, "UPDATE accounts SET money = money - 1 WHERE id = $1", client*2+1)
		_, _ = tx.Exec(ctx, "UPDATE accounts SET money = money + 1 WHERE id = $1", client*2+2)
		if i%5 == 4 {
			_ = tx.Rollback(ctx)
		} else {
			_ = tx.Commit(ctx)
		}
	}
	rows := [][]any{{client*1000 + 500, fmt.Sprint("copied", client), 1}, {client*1000 + 501, fmt.Sprint("copied too", client), 2}}
	if _, err := c.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"id", "name", "n"}, pgx.CopyFromRows(rows)); err != nil {
		t.Error(err)
	}
	if _, err := c.PgConn().CopyTo(ctx, &bytes.Buffer{}, fmt.Sprintf("COPY (SELECT * FROM t WHERE id / 1000 = %d ORDER BY id) TO STDOUT", client)); err != nil {
		t.Error(err)
	}
	if client > 0 {
		return
	}
	if _, err := c.Exec(ctx, "ALTER ROLE postgres PASSWORD 's3cret'"); err != nil {
		t.Error(err)
	}
}

// Of a login only the user and the database are recorded; of a cancellation nothing.
func TestLoginsAreNotRecorded(t *testing.T) {
	f := NewFilters().Filter()
	startup := pg.AppendStartup(nil, "user", "app", "database", "shop")
	client := pg.AppendQuery(pg.Append(bytes.Clone(startup), pg.Password, []byte("s3cret\x00")), "SELECT 1")
	server := pg.Append(nil, pg.Authentication, []byte("\x00\x00\x00\x05salt"))
	server = pg.Append(server, pg.BackendKeyData, []byte("\x00\x00\x00\x01\x00\x00\x00\x02"))
	server = pg.Append(server, pg.ReadyForQuery, []byte("I"))
	server = pg.Append(server, pg.CommandComplete, []byte("SELECT 1\x00"))
	var asked, heard []byte
	for i := range client {
		got, err := f.Request(client[i : i+1])
		if err != nil {
			t.Fatal(err)
		}
		asked = append(asked, got...)
	}
	for i := range server {
		got, err := f.Reply(server[i : i+1])
		if err != nil {
			t.Fatal(err)
		}
		heard = append(heard, got...)
	}
	if want := pg.AppendQuery(startup, "SELECT 1"); !bytes.Equal(asked, want) {
		t.Errorf("of the client %q", asked)
	}
	if want := pg.Append(pg.Append(nil, pg.ReadyForQuery, []byte("I")), pg.CommandComplete, []byte("SELECT 1\x00")); !bytes.Equal(heard, want) {
		t.Errorf("of the server %q", heard)
	}
	f = NewFilters().Filter()
	if got, err := f.Request([]byte("\x00\x00\x00\x10\x04\xd2\x16\x2e\x00\x00\x00\x01\x00\x00\x00\x02")); len(got) > 0 || err != nil {
		t.Errorf("of a cancellation %q, %v", got, err)
	}
}
