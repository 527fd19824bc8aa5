package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// catalogTime is for reading a catalog.
const catalogTime = 10 * time.Second

// ownName is the tool's at servers.
const ownName = "cinch shadow"

// describer reads the catalog of a database over one connection, which it keeps from one time to the next. It is safe for concurrent use.
type describer struct {
	from     gateway.Upstream
	database string

	mu   sync.Mutex
	conn *pgconn.PgConn // nil before the first time, after trouble, and when it was let go
}

// read describes the database. A connection that was lost since the last time is made anew.
func (d *describer) read() (*described, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := d.conn != nil
	out, err := d.try()
	if err != nil && kept {
		return d.try()
	}
	return out, err
}

func (d *describer) try() (out *described, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), catalogTime)
	defer cancel()
	if d.conn == nil {
		// What a client changes at this moment may be locked for a long time.
		parameters := map[string]string{"database": d.database, "application_name": ownName, "lock_timeout": "1s"}
		if d.conn, err = connect(ctx, d.from, parameters); err != nil {
			d.conn = nil
			return nil, err
		}
	}
	if out, err = describe(ctx, d.conn); err != nil {
		d.drop()
	}
	return out, err
}

// letGo closes the connection: a database that somebody is connected to can't be removed.
func (d *describer) letGo() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop()
}

func (d *describer) drop() {
	if d.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = d.conn.Close(ctx)
	d.conn = nil
}
