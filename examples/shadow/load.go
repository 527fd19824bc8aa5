package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/jackc/pgx/v5"
)

const (
	schema = `CREATE TABLE events (id bigint PRIMARY KEY, at timestamptz NOT NULL, body jsonb NOT NULL);
	CREATE INDEX events_at ON events (at)`
	firstEvent = 1_790_000_000 // seconds
)

// fill creates pgbench's tables and the events.
func (c *cell) fill(ctx context.Context) error {
	if err := rig.Output(exec.CommandContext(ctx, "pgbench", "-i", "-q", "-s", strconv.Itoa(c.o.scale), c.production.url())); err != nil {
		return err
	}
	db, err := pgx.Connect(ctx, c.production.url())
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	if _, err := db.Exec(ctx, schema); err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(1, 1))
	_, err = db.CopyFrom(ctx, pgx.Identifier{"events"}, []string{"id", "at", "body"}, pgx.CopyFromSlice(c.o.events, func(i int) ([]any, error) {
		return []any{i, at(i), event(r, i)}, nil
	}))
	if err != nil {
		return err
	}
	c.events = c.o.events
	_, err = db.Exec(ctx, "VACUUM ANALYZE")
	return err
}

// at returns the time of an event: there is one a second.
func at(i int) time.Time { return time.Unix(firstEvent+int64(i), 0) }

// event returns an event as a shop's page may send it.
func event(r *rand.Rand, i int) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	return fmt.Sprintf(`{"type": %q, "user": {"id": %d, "session": "%016x", "country": %q, "plan": %q}, "page": {"url": "https://shop.example.com/%s/%d", `+
		`"title": %q, "referrer": "https://www.example.org/search?q=%s+%s"}, "device": {"agent": "Mozilla/5.0 (%s) AppleWebKit/537.36 (KHTML, like Gecko) `+
		`Chrome/%d.0.0.0 Safari/537.36", "width": %d, "height": %d}, "ms": %d, "cart": {"items": %d, "total": "%d.%02d", "currency": %q}, "number": %d}`,
		pick("view", "view", "view", "search", "add_to_cart", "checkout", "purchase"), r.IntN(50_000), r.Uint64(), pick("DE", "FR", "US", "IN", "BR", "JP"), pick("free", "plus", "team"),
		pick("shoes", "coats", "lamps", "books"), r.IntN(9000), pick("Waterproof shoes for long walks", "A lamp for the desk", "Coats for the winter", "Books that others read"),
		pick("blue", "cheap", "best", "used"), pick("shoes", "lamp", "coat", "novel"), pick("Windows NT 10.0; Win64; x64", "X11; Linux x86_64", "Macintosh; Intel Mac OS X 10_15_7"),
		110+r.IntN(20), pick1(r, 390, 768, 1280, 1920), pick1(r, 844, 1024, 720, 1080), r.IntN(2000), r.IntN(6), r.IntN(400), r.IntN(100), pick("EUR", "USD", "INR"), i)
}

func pick1(r *rand.Rand, from ...int) int { return from[r.IntN(len(from))] }

// load runs clients through the mirror until ctx ends or the time is over.
func (c *cell) load(ctx context.Context, port string, during time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	var clients sync.WaitGroup
	errs := make(chan error, 4)
	for _, client := range []func(context.Context, string) error{c.bank, c.writeEvents, c.readEvents, c.readReports} {
		clients.Go(func() {
			if err := client(ctx, port); err != nil && ctx.Err() == nil {
				errs <- err
				cancel()
			}
		})
	}
	clients.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// bank runs pgbench's default transaction.
func (c *cell) bank(ctx context.Context, port string) error {
	seconds := strconv.Itoa(int((c.o.alike + c.o.duration).Seconds()) + 1) // ctx ends it earlier
	return rig.Output(exec.CommandContext(ctx, "pgbench", "-n", "-M", "prepared", "-c", "4", "-R", strconv.FormatFloat(c.o.rate, 'f', -1, 64), "-T", seconds, rig.PostgresURL(port)))
}

// paced calls do at a rate, with a connection through the mirror.
func paced(ctx context.Context, port string, rate float64, do func(db *pgx.Conn, i int) error) error {
	db, err := pgx.Connect(ctx, rig.PostgresURL(port))
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	for i, began := 0, time.Now(); ctx.Err() == nil; i++ {
		if err := do(db, i); err != nil {
			return err
		}
		select {
		case <-time.After(time.Until(began.Add(time.Duration(float64(i+1) / rate * float64(time.Second))))):
		case <-ctx.Done():
		}
	}
	return nil
}

func (c *cell) writeEvents(ctx context.Context, port string) error {
	r := rand.New(rand.NewPCG(2, 2))
	return paced(ctx, port, c.o.rate/2, func(db *pgx.Conn, _ int) error {
		id := c.events
		c.events++ // only this client inserts events
		_, err := db.Exec(context.WithoutCancel(ctx), "INSERT INTO events VALUES ($1, $2, $3)", id, at(id), event(r, id))
		return err
	})
}

func (c *cell) readEvents(ctx context.Context, port string) error {
	r := rand.New(rand.NewPCG(3, 3))
	return paced(ctx, port, 2*c.o.rate, func(db *pgx.Conn, _ int) error {
		return read(ctx, db, "SELECT id, at, body FROM events WHERE id = $1", r.IntN(c.o.events))
	})
}

// readReports runs the queries of an analyst of sales.
func (c *cell) readReports(ctx context.Context, port string) error {
	r := rand.New(rand.NewPCG(4, 4))
	return paced(ctx, port, c.o.rate/4, func(db *pgx.Conn, i int) error {
		if i%4 == 0 {
			from := r.IntN(c.o.scale * 100_000)
			return read(ctx, db, "SELECT bid, count(*), sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN $1 AND $2 GROUP BY bid ORDER BY bid", from, from+5000)
		}
		from := r.IntN(c.o.events)
		return read(ctx, db, `SELECT body->>'type' AS type, count(*), avg((body->>'ms')::int), sum((body->'cart'->>'total')::numeric)
			FROM events WHERE at >= $1 AND at < $2 GROUP BY 1 ORDER BY 1`, at(from), at(from+1000))
	})
}

// read ignores ctx's cancellation, so that no query is cancelled halfway.
func read(ctx context.Context, db *pgx.Conn, query string, args ...any) error {
	rows, err := db.Query(context.WithoutCancel(ctx), query, args...)
	if err != nil {
		return err
	}
	for rows.Next() {
		if _, err := rows.Values(); err != nil {
			return err
		}
	}
	return rows.Err()
}
