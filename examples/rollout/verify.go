package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/internal/switchover/rollout"
)

// outcome holds the results of the run.
type outcome struct {
	Began   time.Time
	Mount   string
	State   *rollout.State // as cinch rollout status reports it
	Gateway control.State
	Looks   []look
	Bench   bench
	Tellers []*teller
	Bank    bank
	Unequal []string // tables that differ between the new nodes
	page    string
}

// look holds the sizes of the new nodes at a time after the move.
type look struct {
	After    time.Duration
	Disk     [3]int64 // without WAL, in the cell's order of nodes
	Database int64    // size of all databases according to the server, before compression
}

// bench holds the results of pgbench.
type bench struct {
	Clients           int
	Committed, Failed int // as pgbench reports
	There             int // rows in its history table
	Unbalanced        int // how many of its three sums differ from the history's
	Pauses            []time.Duration
	Latencies         []time.Duration // of all transactions, from the time they were due
}

// bank counts the outcomes of the tellers' transfers.
type bank struct {
	Committed, Lost, Twice, Strange int
	Wrong                           int // accounts whose balance differs from the ledger's
}

// verify checks the databases after all clients have ended.
func (c *cell) verify(ctx context.Context, out *outcome) error {
	primary := c.made[0]
	err := ask(ctx, primary.url(), func(db *pgx.Conn) error {
		if err := out.benchThere(ctx, db); err != nil {
			return err
		}
		return out.bankThere(ctx, db)
	})
	if err != nil {
		return err
	}
	return c.compare(ctx, out)
}

// benchThere counts pgbench's transactions. Each adds the same amount to an account, a teller, a branch and
// the history.
func (o *outcome) benchThere(ctx context.Context, db *pgx.Conn) error {
	return db.QueryRow(ctx, `SELECT count(*),
		((SELECT sum(abalance) FROM pgbench_accounts) IS DISTINCT FROM sum(delta)::bigint)::int
		+ ((SELECT sum(tbalance) FROM pgbench_tellers) IS DISTINCT FROM sum(delta)::bigint)::int
		+ ((SELECT sum(bbalance) FROM pgbench_branches) IS DISTINCT FROM sum(delta)::bigint)::int FROM pgbench_history`).Scan(&o.Bench.There, &o.Bench.Unbalanced)
}

// bankThere compares the ledger with what the tellers know.
func (o *outcome) bankThere(ctx context.Context, db *pgx.Conn) error {
	type transfer struct{ Client, Number int }
	times := map[transfer]int{}
	rows, err := db.Query(ctx, "SELECT client, number FROM ledger")
	if err != nil {
		return err
	}
	var t transfer
	if _, err := pgx.ForEachRow(rows, []any{&t.Client, &t.Number}, func() error { times[t]++; return nil }); err != nil {
		return err
	}
	for _, teller := range o.Tellers {
		if teller.err != nil {
			return fmt.Errorf("client %d of the bank: %w", teller.number, teller.err)
		}
		for _, number := range teller.committed {
			o.Bank.count(times[transfer{teller.number, number}], true)
			delete(times, transfer{teller.number, number})
		}
		for _, number := range teller.unknown {
			o.Bank.count(times[transfer{teller.number, number}], false)
			delete(times, transfer{teller.number, number})
		}
	}
	o.Bank.Strange = len(times)
	return db.QueryRow(ctx, `SELECT count(*) FROM account a WHERE balance <> $1
		- (SELECT coalesce(sum(amount), 0) FROM ledger WHERE source = a.id) + (SELECT coalesce(sum(amount), 0) FROM ledger WHERE target = a.id)`, balance).Scan(&o.Bank.Wrong)
}

// count counts a transfer that the ledger has `times` times.
func (b *bank) count(times int, committed bool) {
	if committed {
		b.Committed++
	}
	switch {
	case times > 1:
		b.Twice++
	case times == 0 && committed:
		b.Lost++
	}
}

// checksums holds a query for the checksum of each table.
var checksums = map[string]string{}

func init() {
	for _, table := range []string{"pgbench_accounts", "pgbench_tellers", "pgbench_branches", "pgbench_history", "events", "account", "ledger"} {
		checksums[table] = "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM " + table + " t"
	}
}

// compare compares the new standbys with the new primary, after they have replayed all of its WAL.
func (c *cell) compare(ctx context.Context, out *outcome) error {
	want, err := sums(ctx, c.made[0], "")
	if err != nil {
		return err
	}
	var end string
	err = ask(ctx, c.made[0].url(), func(db *pgx.Conn) error {
		return db.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&end)
	})
	if err != nil {
		return err
	}
	for _, standby := range c.made[1:] {
		got, err := sums(ctx, standby, end)
		if err != nil {
			return err
		}
		for table, sum := range want {
			if got[table] != sum {
				out.Unequal = append(out.Unequal, table+" at "+standby.name)
			}
		}
	}
	slices.Sort(out.Unequal)
	return nil
}

// sums returns the checksums of a node's tables, after it has replayed the WAL up to a position.
func sums(ctx context.Context, n *node, replayed string) (map[string]string, error) {
	found := map[string]string{}
	err := ask(ctx, n.url(), func(db *pgx.Conn) error {
		for there := replayed == ""; !there; {
			if err := db.QueryRow(ctx, "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn", replayed).Scan(&there); err != nil {
				return err
			}
			if !there {
				time.Sleep(10 * time.Millisecond)
			}
		}
		for table, question := range checksums {
			var sum string
			if err := db.QueryRow(ctx, question).Scan(&sum); err != nil {
				return err
			}
			found[table] = sum
		}
		return nil
	})
	return found, err
}

// readLog reads pgbench's log of transactions, and finds each client's longest during the primary's
// switchover.
func (c *cell) readLog(out *outcome) error {
	primary := out.State.Nodes[c.old[0].name]
	from, to := primary.HeldAt, primary.HeldAt.Add(primary.Pause)
	pauses := map[int]time.Duration{}
	names, err := filepath.Glob(filepath.Join(c.work, "transactions.*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		err := eachTransaction(name, func(client int, took time.Duration, ended time.Time) {
			out.Bench.Latencies = append(out.Bench.Latencies, took)
			if ended.After(from) && ended.Add(-took).Before(to) {
				pauses[client] = max(pauses[client], took)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, p := range pauses {
		out.Bench.Pauses = append(out.Bench.Pauses, p)
	}
	slices.Sort(out.Bench.Pauses)
	slices.Sort(out.Bench.Latencies)
	if len(out.Bench.Latencies) != out.Bench.Committed {
		return fmt.Errorf("pgbench logged only %d transactions of %d", len(out.Bench.Latencies), out.Bench.Committed)
	}
	return nil
}

// eachTransaction reads a file whose fields are client, number, duration in µs, script number, and end time
// in s and µs.
func eachTransaction(name string, do func(client int, took time.Duration, ended time.Time)) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		var client, number, took, script, second, micro int64
		if n, err := fmt.Sscan(s.Text(), &client, &number, &took, &script, &second, &micro); n < 6 {
			return fmt.Errorf("pgbench's log: %q: %w", s.Text(), err)
		}
		do(int(client), time.Duration(took)*time.Microsecond, time.Unix(second, micro*1000))
	}
	return s.Err()
}
