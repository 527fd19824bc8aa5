package rollout

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// gates checks whether a new node is as good as the one that it is to replace.
func (p preparation) gates(ctx context.Context) error {
	newNode := p.newNode
	if p.cell.Patroni == nil { // Patroni has reported it
		if err := p.waitStreaming(ctx, p.primary, newNode); err != nil {
			return fmt.Errorf("%w: %w", ErrGate, err)
		}
	}
	lag, err := p.lag(ctx)
	if err != nil {
		return err
	}
	if lag > int64(p.cell.Gates.Lag) {
		return fmt.Errorf("%w: %s is %s behind", ErrGate, newNode.Name, terminal.Size(lag))
	}
	if err := p.samePreloads(ctx); err != nil {
		return err
	}
	databases, err := databases(ctx, newNode)
	if err != nil {
		return err
	}
	for _, database := range databases {
		if err := p.gatesOf(ctx, database); err != nil {
			return fmt.Errorf("database %s: %w", database, err)
		}
	}
	if err := p.latency(ctx); err != nil {
		return err
	}
	if err := p.cell.hook(ctx, p.cell.Hooks.Gate, newNode); err != nil {
		return fmt.Errorf("%w: %w", ErrGate, err)
	}
	// Without its marker the roll-out does not empty a directory.
	for _, directory := range newNode.directories() {
		if _, err := newNode.command(ctx, "rm", "-f", marker(directory)); err != nil {
			return err
		}
	}
	return nil
}

// gatesOf runs the gates for a database.
func (p preparation) gatesOf(ctx context.Context, database string) error {
	standby, err := p.newNode.connect(ctx, database)
	if err != nil {
		return err
	}
	defer standby.Close(context.WithoutCancel(ctx))
	if err := p.findsLibraries(ctx, database, standby); err != nil {
		return err
	}
	if err := collations(ctx, standby); err != nil {
		return err
	}
	primary, err := p.primary.connect(ctx, database)
	if err != nil {
		return err
	}
	defer primary.Close(context.WithoutCancel(ctx))
	s := sampler{primary: primary, standby: standby, bytes: int64(p.cell.Gates.Sample), patience: p.cell.catchUpTime()}
	if err := s.run(ctx); err != nil {
		return err
	}
	p.log("database %s: %d rows of %d tables are equal on both", database, s.rows, s.tables)
	if !*p.cell.Gates.Amcheck {
		return nil
	}
	checked, err := amcheck(ctx, standby)
	if err == nil && checked > 0 {
		p.log("database %s: amcheck found no damage in %d indexes", database, checked)
	}
	return err
}

// collations returns an error if the machine has another version of a collation than the one that texts were sorted
// with: the database's, or that of a column, an index, a partition key or a range.
func collations(ctx context.Context, c *pgx.Conn) error {
	rows, _ := c.Query(ctx, `WITH used (oid) AS (
			SELECT unnest(indcollation) FROM pg_index UNION SELECT unnest(partcollation) FROM pg_partitioned_table UNION SELECT rngcollation FROM pg_range
			UNION SELECT attcollation FROM pg_attribute a JOIN pg_class r ON r.oid = attrelid WHERE relkind IN ('r', 'p', 'm', 'c') AND NOT attisdropped
		), versions (name, built, has) AS (
			SELECT 'of the database', datcollversion, pg_database_collation_actual_version(oid) FROM pg_database WHERE datname = current_database()
			UNION ALL SELECT oid::regcollation::text, collversion, pg_collation_actual_version(oid) FROM pg_collation JOIN used USING (oid) WHERE collversion IS NOT NULL
		)
		SELECT format('%s is of version %s there and %s on the new machine', name, built, coalesce(has, 'none')) FROM versions WHERE built <> '' AND built IS DISTINCT FROM has ORDER BY 1`)
	differ, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(differ) > 0 {
		err = fmt.Errorf("%w: the collation %s: indexes on texts would be wrong", ErrGate, strings.Join(differ, ", and "))
	}
	return err
}

// amcheck checks the B-trees of a database if the extension is installed, without locks that block others.
func amcheck(ctx context.Context, c *pgx.Conn) (checked int, err error) {
	var there bool
	if err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'amcheck')").Scan(&there); err != nil || !there {
		return 0, err
	}
	rows, _ := c.Query(ctx, `SELECT i.indexrelid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
		WHERE a.amname = 'btree' AND c.relpersistence = 'p' AND i.indisready AND i.indisvalid ORDER BY 1`)
	indexes, err := pgx.CollectRows(rows, pgx.RowTo[uint32])
	if err != nil {
		return 0, err
	}
	for _, index := range indexes {
		if _, err := c.Exec(ctx, "SELECT bt_index_check($1::oid::regclass)", index); err != nil {
			return checked, fmt.Errorf("%w: amcheck: %w", ErrGate, err)
		}
		checked++
	}
	return checked, nil
}
