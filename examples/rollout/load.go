package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/jackc/pgx/v5"
)

const (
	accounts = 200 // in the bank
	balance  = 1000
)

// schema creates a bank and a table of events as a shop's page may send them. The bank's ledger would show a
// transfer that was applied twice.
var schema = fmt.Sprintf(`CREATE EXTENSION amcheck;
	CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL);
	INSERT INTO account SELECT i, %d FROM generate_series(0, %d) AS i;
	CREATE TABLE ledger (client int, number int, source int, target int, amount int);
	SELECT setseed(0.5);
	CREATE TABLE events (id bigint PRIMARY KEY, at timestamptz NOT NULL, body jsonb NOT NULL);
	CREATE INDEX events_at ON events (at)`, balance, accounts-1)

const events = `INSERT INTO events SELECT i, '2026-09-01'::timestamptz + i * interval '1 second', jsonb_build_object(
	'type', (ARRAY['view', 'view', 'search', 'add_to_cart', 'checkout', 'purchase'])[1 + floor(random() * 6)::int],
	'user', jsonb_build_object('id', floor(random() * 50000)::int, 'session', md5(random()::text), 'country', (ARRAY['DE', 'FR', 'US', 'IN', 'BR', 'JP'])[1 + floor(random() * 6)::int]),
	'page', jsonb_build_object('url', 'https://shop.example.com/' || (ARRAY['shoes', 'coats', 'lamps', 'books'])[1 + floor(random() * 4)::int] || '/' || floor(random() * 9000)::int,
		'referrer', 'https://www.example.org/search?q=' || (ARRAY['blue', 'cheap', 'best', 'used'])[1 + floor(random() * 4)::int]),
	'agent', 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/' || 110 + floor(random() * 20)::int || '.0.0.0 Safari/537.36',
	'ms', floor(random() * 2000)::int, 'total', round((random() * 400)::numeric, 2), 'number', i) FROM generate_series(1, $1::int) AS i`

// fill creates the tables and forces them to disk.
func (c *cell) fill(ctx context.Context) error {
	url := c.old[0].url()
	if err := rig.Output(exec.CommandContext(ctx, "pgbench", "-i", "-q", "-s", strconv.Itoa(c.o.scale), url)); err != nil {
		return err
	}
	return ask(ctx, url, func(db *pgx.Conn) error {
		if _, err := db.PgConn().Exec(ctx, schema).ReadAll(); err != nil {
			return err
		}
		if _, err := db.Exec(ctx, events, c.o.events); err != nil {
			return err
		}
		for _, text := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
			if _, err := db.Exec(ctx, text); err != nil {
				return err
			}
		}
		return nil
	})
}

// teller is a client of the bank.
type teller struct {
	number     int
	url        string
	committed  []int // transfers whose commit the server confirmed
	unknown    []int // transfers whose connection broke before the confirmation
	reconnects int
	longest    time.Duration
	err        error
}

// bank runs the tellers until stop is called.
func (c *cell) bank(ctx context.Context) (stop func() []*teller) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	tellers := make([]*teller, c.o.tellers)
	for i := range tellers {
		t := &teller{number: i, url: "postgres://postgres@" + c.listen + "/postgres?sslmode=disable"}
		tellers[i] = t
		all.Go(func() { t.err = t.work(ctx) })
	}
	return func() []*teller {
		cancel()
		all.Wait()
		return tellers
	}
}

// betweenTransfers is a teller's pause between transfers.
const betweenTransfers = 100 * time.Millisecond

func (t *teller) work(ctx context.Context) error {
	var db *pgx.Conn
	for number := 0; ctx.Err() == nil; number++ {
		if db == nil || db.IsClosed() {
			if db != nil {
				t.reconnects++
			}
			var err error
			if db, err = connect(ctx, t.url); err != nil {
				return err
			}
		}
		began := time.Now()
		err := t.transfer(context.WithoutCancel(ctx), db, number)
		t.longest = max(t.longest, time.Since(began))
		switch {
		case err == nil:
			t.committed = append(t.committed, number)
		case db.IsClosed():
			t.unknown = append(t.unknown, number)
		default:
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(betweenTransfers):
		}
	}
	if db == nil {
		return nil
	}
	return db.Close(context.WithoutCancel(ctx))
}

// connect retries until it succeeds or ctx ends.
func connect(ctx context.Context, url string) (db *pgx.Conn, err error) {
	for {
		if db, err = pgx.Connect(ctx, url); err == nil {
			return db, nil
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// transfer executes a transaction of several statements, which locks accounts in ascending order.
func (t *teller) transfer(ctx context.Context, db *pgx.Conn, number int) error {
	source, target := (t.number+7*number)%accounts, (t.number+13*number+1)%accounts
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	amount := 1 + number%5
	if _, err := tx.Exec(ctx, "INSERT INTO ledger VALUES ($1, $2, $3, $4, $5)", t.number, number, source, target, amount); err != nil {
		return err
	}
	for _, id := range []int{min(source, target), max(source, target)} {
		by := amount
		if id == source {
			by = -amount
		}
		if source == target {
			by = 0
		}
		if _, err := tx.Exec(ctx, "UPDATE account SET balance = balance + $1 WHERE id = $2", by, id); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

// longestRun exceeds any run; a signal ends pgbench.
const longestRun = 24 * time.Hour

// pgbench starts pgbench with its default transaction and prepared statements. It logs every transaction.
func (c *cell) pgbench() (err error) {
	c.load, err = c.run("pgbench", nil, "pgbench", "-n", "-M", "prepared", "-c", strconv.Itoa(c.o.clients), "-j", "2", "-R", strconv.FormatFloat(c.o.rate, 'f', -1, 64),
		"-T", strconv.Itoa(int(longestRun.Seconds())), "-l", "--log-prefix="+filepath.Join(c.work, "transactions"), "postgres://postgres@"+c.listen+"/postgres?sslmode=disable")
	return err
}

// endLoad makes pgbench end as when its time is over (SIGALRM), after finishing its transactions, and reads
// its report.
func (c *cell) endLoad(out *outcome) error {
	if err := c.load.cmd.Process.Signal(syscall.SIGALRM); err != nil {
		return err
	}
	<-c.load.ended
	text := c.load.out.String()
	out.Bench.Clients = c.o.clients
	for _, line := range []struct {
		format string
		to     *int
	}{{"number of transactions actually processed: ", &out.Bench.Committed}, {"number of failed transactions: ", &out.Bench.Failed}} {
		if err := numberBehind(text, line.format, line.to); err != nil {
			return fmt.Errorf("pgbench: %w\n%s", errors.Join(c.load.err, err), text)
		}
	}
	if c.load.err != nil { // a client ended with an error
		return fmt.Errorf("pgbench: %w\n%s", c.load.err, text)
	}
	return nil
}
