package rollout

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A standby has the same versions of rows in the same places as its primary. So rows are compared by place
// (ctid) and by the transaction that wrote them (xmin) while writes continue: a version that both servers
// have must be equal. A version that the primary had before a position in the WAL, and still has, must be on
// the standby once it has replayed up to there.

// sampler compares rows of the tables of a database.
type sampler struct {
	primary, standby *pgx.Conn
	bytes            int64         // to compare in each table
	patience         time.Duration // how long commits may take to be replayed

	rows, tables int
}

// table is a table or materialized view with rows.
type table struct {
	Name   string
	Blocks int64
}

// version identifies a row version: its place and the transaction that wrote it.
type version struct{ Place, Transaction string }

// rangeBlocks is the number of blocks that are read at a time.
const rangeBlocks = 32

// blockBytes is PostgreSQL's default block size, which few builds change.
const blockBytes = 8 << 10

func (s *sampler) run(ctx context.Context) error {
	rows, _ := s.primary.Query(ctx, `SELECT format('%I.%I', n.nspname, c.relname) AS name, pg_relation_size(c.oid) / current_setting('block_size')::int AS blocks
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'm') AND c.relpersistence = 'p' AND c.relam <> 0 AND c.relispopulated
		AND n.nspname NOT IN ('pg_catalog', 'information_schema')`)
	tables, err := pgx.CollectRows(rows, pgx.RowToStructByName[table])
	if err != nil {
		return err
	}
	for _, t := range tables {
		err := s.table(ctx, t)
		var failed *pgconn.PgError
		if errors.As(err, &failed) && failed.Code == "42P01" {
			continue // it has been dropped
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		s.tables++
	}
	return nil
}

// table compares pieces of a table that are spread over it.
func (s *sampler) table(ctx context.Context, t table) error {
	pieces := max(1, min(s.bytes/blockBytes, t.Blocks)/rangeBlocks)
	each := float64(max(t.Blocks, 1)) / float64(pieces)
	for i := range pieces {
		at := int64(float64(i)*each + rand.Float64()*max(0, each-rangeBlocks))
		if err := s.piece(ctx, t.Name, at); err != nil {
			return err
		}
	}
	return nil
}

// looks limits the comparisons of a piece while the standby lacks a row. A dead row version may disappear on the
// standby first, because the standby sees a commit a moment before the primary shows it.
const looks = 5

// piece compares rangeBlocks blocks from block at onward.
func (s *sampler) piece(ctx context.Context, name string, at int64) error {
	for look := 1; ; look++ {
		missing, same, err := s.compare(ctx, name, at)
		if err != nil {
			return err
		}
		if missing == nil {
			s.rows += same
			return nil
		}
		if look == looks {
			return fmt.Errorf("%w: the row at %s, written by transaction %s, is missing on the new node", ErrGate, missing.Place, missing.Transaction)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// compare returns a version that the standby lacks, although the primary had it before the standby was read
// and still has it.
func (s *sampler) compare(ctx context.Context, name string, at int64) (missing *version, same int, err error) {
	onPrimary, err := versions(ctx, s.primary, name, at)
	if err != nil {
		return nil, 0, err
	}
	var written int64
	// Committing a new message flushes the WAL: without a flush it may never be replayed.
	if err := s.primary.QueryRow(ctx, emitMessage).Scan(&written); err != nil {
		return nil, 0, err
	}
	if err := s.replayed(ctx, written); err != nil {
		return nil, 0, err
	}
	onStandby, err := versions(ctx, s.standby, name, at)
	if err != nil {
		return nil, 0, err
	}
	later, err := versions(ctx, s.primary, name, at)
	if err != nil {
		return nil, 0, err
	}
	for v, sum := range onPrimary {
		other, ok := onStandby[v]
		// A rewrite of the table may put another row of the same transaction there.
		if ok && other != sum && later[v] == sum {
			return nil, 0, fmt.Errorf("%w: the row at %s, written by transaction %s, differs on the new node", ErrGate, v.Place, v.Transaction)
		}
		if other == sum && ok {
			same++
		} else if _, still := later[v]; still && !ok {
			missing = &v
		}
	}
	return missing, same, nil
}

// replayed waits until the standby has replayed up to written.
func (s *sampler) replayed(ctx context.Context, written int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	// The first waits are short: usually the standby has replayed it at once, and there are many pieces.
	for wait := pollPause / 100; ; wait = min(2*wait, pollPause) {
		var at int64
		err := s.standby.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint").Scan(&at)
		if err != nil || at >= written {
			return err
		}
		if err := pauseFor(ctx, wait); err != nil {
			return fmt.Errorf("%w: the new node has not replayed the primary's commits: %w", ErrGate, err)
		}
	}
}

// conflicts limits how often a query may be cancelled by a recovery conflict before that is an error.
const conflicts = 10

// versions returns the row versions of rangeBlocks blocks, with a digest of each row.
func versions(ctx context.Context, c *pgx.Conn, name string, at int64) (map[version]string, error) {
	for try := 1; ; try++ {
		found, err := versionsOnce(ctx, c, name, at)
		var failed *pgconn.PgError
		if !errors.As(err, &failed) || failed.Code != "40001" || try == conflicts {
			return found, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

func versionsOnce(ctx context.Context, c *pgx.Conn, name string, at int64) (map[version]string, error) {
	query := fmt.Sprintf("SELECT ctid::text, xmin::text, md5((t.*)::text) FROM ONLY %s t WHERE ctid >= '(%d,0)' AND ctid < '(%d,0)'", name, at, at+rangeBlocks)
	rows, err := c.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found := map[version]string{}
	for rows.Next() {
		var v version
		var sum string
		if err := rows.Scan(&v.Place, &v.Transaction, &sum); err != nil {
			return nil, err
		}
		found[v] = sum
	}
	return found, rows.Err()
}
