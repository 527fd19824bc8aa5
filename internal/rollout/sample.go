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

// A standby has the same versions of rows in the same places as its primary. So rows are compared by place (ctid) and by the
// transaction that wrote them (xmin) while writes go on: what both servers have under the same place and transaction has to be equal, and what the primary
// had before a position in the WAL, and has still, the standby must have when it has replayed up to there.

// sampler compares rows of a database's tables.
type sampler struct {
	primary, standby *pgx.Conn
	bytes            int64         // of each table
	patience         time.Duration // for what was committed to be replayed

	rows, tables int
}

// table is one that has rows of its own.
type table struct {
	Name   string
	Blocks int64
}

// version is a row as a transaction wrote it.
type version struct{ Place, Transaction string }

// rangeBlocks are read in one piece.
const rangeBlocks = 32

// blockBytes is PostgreSQL's own size of a block, which few builds change.
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

// table compares pieces of a table, spread over it.
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

// looks is how often the standby may lack a row that the primary has. A standby sees a commit a moment before the primary shows it, and so that a
// version of a row is gone.
const looks = 5

// piece compares some blocks.
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
			return fmt.Errorf("%w: the row at %s, written by transaction %s, is not on the new node", ErrGate, missing.Place, missing.Transaction)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// compare returns a version that the primary had before the standby was read, and has still, if the standby does not have it.
func (s *sampler) compare(ctx context.Context, name string, at int64) (missing *version, same int, err error) {
	there, err := versions(ctx, s.primary, name, at)
	if err != nil {
		return nil, 0, err
	}
	var written int64
	// A message of its own, since the position of WAL that nobody has flushed may never be replayed.
	if err := s.primary.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_logical_emit_message(true, 'cinch rollout', ''), '0/0')::bigint").Scan(&written); err != nil {
		return nil, 0, err
	}
	if err := s.replayed(ctx, written); err != nil {
		return nil, 0, err
	}
	here, err := versions(ctx, s.standby, name, at)
	if err != nil {
		return nil, 0, err
	}
	again, err := versions(ctx, s.primary, name, at)
	if err != nil {
		return nil, 0, err
	}
	for v, sum := range there {
		other, ok := here[v]
		if ok && other != sum && again[v] == sum { // a rewrite of the table puts others of the same transaction there
			return nil, 0, fmt.Errorf("%w: the row at %s, written by transaction %s, differs on the new node", ErrGate, v.Place, v.Transaction)
		}
		if other == sum && ok {
			same++
		} else if _, still := again[v]; still && !ok {
			missing = &v
		}
	}
	return missing, same, nil
}

// replayed waits for the standby.
func (s *sampler) replayed(ctx context.Context, written int64) error {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	for wait := lookTime / 100; ; wait = min(2*wait, lookTime) { // it mostly is there at once, and there are many pieces
		var at int64
		err := s.standby.QueryRow(ctx, "SELECT pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint").Scan(&at)
		if err != nil || at >= written {
			return err
		}
		if err := pauseFor(ctx, wait); err != nil {
			return fmt.Errorf("%w: the new node does not replay what the primary has committed: %w", ErrGate, err)
		}
	}
}

// conflicts is how often a query on a standby may be ended by what the primary does, before that is an error.
const conflicts = 10

// versions are the rows of some blocks, with a digest of each.
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
