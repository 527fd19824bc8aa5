package postgres

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/testenv"
)

// counter forwards connections to a server and counts them.
type counter struct {
	server string

	mu              sync.Mutex
	made, open, top int
	all             map[net.Conn]bool
}

// count starts a counter in front of a server, and returns its address.
func count(t *testing.T, server string) (c *counter, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c = &counter{server: server, all: map[net.Conn]bool{}}
	go c.serve(l)
	return c, l.Addr().String()
}

func (c *counter) serve(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		go c.pass(client)
	}
}

func (c *counter) pass(client net.Conn) {
	defer client.Close()
	head := make([]byte, pg.StartupHeaderBytes)
	if _, err := io.ReadFull(client, head); err != nil {
		return
	}
	// Drivers send a CancelRequest for a lost connection.
	if _, code, err := pg.StartupHead(head); err != nil || code == pg.CancelRequest {
		return
	}
	c.note(client, 1)
	defer c.note(client, -1)
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		return
	}
	defer server.Close()
	if _, err := server.Write(head); err != nil {
		return
	}
	go func() {
		defer client.Close()
		_, _ = io.Copy(client, server)
	}()
	_, _ = io.Copy(server, client)
}

func (c *counter) note(client net.Conn, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	if n > 0 {
		c.made++
		c.all[client] = true
		c.top = max(c.top, c.open)
	} else {
		delete(c.all, client)
	}
}

// cut ends all connections.
func (c *counter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for client := range c.all {
		_ = client.Close()
	}
}

func (c *counter) counts() (made, open, top int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made, c.open, c.top
}

// newCountedBench returns a bench whose mirror reads production's catalogs through a counter.
func newCountedBench(t *testing.T, schema string) (b *bench, c *counter) {
	t.Helper()
	b = newBench(t, schema, func(cfg *shadow.Config) {
		production := cfg.Production
		c, production.Address = count(t, production.Address)
		protocol, err := New(t.Context(), production, cfg.Control, Options{Databases: []string{cfg.Production.Database, "passing"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(protocol.Close)
		cfg.Protocol = protocol
		testenv.Eventually(t, "it has asked whether it may", func() bool { _, open, _ := c.counts(); return open == 0 })
	})
	return b, c
}

// Clients that define much: production is asked over one connection, and only if an answer can't be compared
// otherwise.
func TestDefinitionsAreReadWhenNeeded(t *testing.T) {
	b, counter := newCountedBench(t, "CREATE TABLE t (id int PRIMARY KEY)")
	ctx := t.Context()
	prepared(t, b.client(t), "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING")
	crowd(t, b.clients(t, 4), func(_ context.Context, c *pgx.Conn, client int, _ *rand.Rand) error {
		for i := range rounds(50) {
			name := fmt.Sprintf("made_%d_%d", client, i)
			text := fmt.Sprintf("CREATE TABLE %s (id int, at timestamptz); INSERT INTO %s VALUES (1, '2000-01-01')", name, name)
			if i%5 == 0 {
				text += fmt.Sprintf("; SELECT * FROM %s", name)
			}
			if _, err := c.PgConn().Exec(ctx, text).ReadAll(); err != nil {
				return err
			}
		}
		return nil
	})
	b.settle(t)
	if made, open, top := counter.counts(); made != 2 || top > 1 { // the first tries the login
		t.Errorf("%d connections to production, %d at a time, %d still open", made, top, open)
	}
}

// A lost connection is made again; the catalog is read when an unknown table comes.
func TestLostConnectionToProduction(t *testing.T) {
	b, counter := newCountedBench(t, "CREATE TABLE t (id int PRIMARY KEY); CREATE FUNCTION later(name text) RETURNS void LANGUAGE plpgsql AS "+
		"$$ BEGIN EXECUTE 'CREATE TABLE ' || name || ' (id int, at timestamptz DEFAULT clock_timestamp())'; END $$")
	c := b.client(t)
	for i := range 3 {
		name := fmt.Sprintf("late%d", i)
		for _, text := range []string{
			"DO $$ BEGIN PERFORM later('" + name + "'); END $$", "INSERT INTO " + name + " VALUES (1)", "SELECT max(at) FROM " + name, "SELECT * FROM " + name,
			"DELETE FROM " + name + " WHERE at > '2000-01-01'", "CREATE TABLE behind_" + name + " ()",
		} {
			if _, err := c.PgConn().Exec(t.Context(), text).ReadAll(); err != nil {
				t.Fatal(err)
			}
		}
		testenv.Eventually(t, "all has come", func() bool {
			return contents(t, b.test, "SELECT count(*) FROM pg_class WHERE relname = 'behind_"+name+"'") == "1|\n"
		})
		counter.cut()
		testenv.Eventually(t, "the lost connection is counted", func() bool { _, open, _ := counter.counts(); return open == 0 })
	}
	r := b.settle(t)
	if made, _, top := counter.counts(); made != 4 || top > 1 {
		t.Errorf("%d connections to production, %d at a time", made, top)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "late2.at: default clock_timestamp()") {
		t.Error(notes)
	}
}

// A database without clients can be dropped: the tool has no connection to it, at production or at targets.
// The mirror may notice only after the answer to DROP DATABASE that production has closed the client's
// connection, as on a busy machine.
func TestDatabaseIsRemoved(t *testing.T) {
	release := make(chan struct{})
	b := newBench(t, "CREATE TABLE t (id int PRIMARY KEY)", func(cfg *shadow.Config) {
		protocol, err := New(t.Context(), cfg.Production, cfg.Control, Options{Databases: []string{cfg.Production.Database, "passing"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(protocol.Close)
		cfg.Protocol = protocol
		cfg.Production.Address = holdEnds(t, cfg.Production.Address, release)
	})
	c, ctx := b.client(t), t.Context()
	for range 3 {
		if _, err := c.Exec(ctx, "CREATE DATABASE passing"); err != nil {
			t.Fatal(err)
		}
		other, err := pgx.Connect(ctx, b.elsewhere("passing"))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"CREATE TABLE IF NOT EXISTS a (id int)", "INSERT INTO a VALUES (1)", "SELECT * FROM a"} {
			prepared(t, other, text)
		}
		if err := other.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(ctx, "DROP DATABASE passing"); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	if r := b.settle(t); r.Compared.Diverged > 0 {
		t.Errorf("targets did not what production did: %+v", r.Compared)
	}
	for _, s := range b.servers() {
		if left := contents(t, s, "SELECT count(*) FROM pg_database WHERE datname = 'passing'"); left != "0|\n" {
			t.Errorf("it is still there")
		}
	}
}

// holdEnds forwards connections to a server, and returns its address. It keeps connections open that the
// server has closed until release is closed.
func holdEnds(t *testing.T, server string, release <-chan struct{}) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); _ = server.(*net.TCPConn).CloseWrite() }()
			go func() {
				defer client.Close()
				defer server.Close()
				_, _ = io.Copy(client, server)
				select {
				case <-release:
				case <-t.Context().Done():
				}
			}()
		}
	}()
	return l.Addr().String()
}
