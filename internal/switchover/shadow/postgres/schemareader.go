package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// catalogTime limits one read of a catalog.
const catalogTime = 10 * time.Second

// applicationName is the tool's application_name at servers.
const applicationName = "cinch shadow"

// schemaReader reads the catalog of a database over one connection, which it keeps between reads. It is safe
// for concurrent use.
type schemaReader struct {
	from     endpoint.Upstream
	database string

	mu   sync.Mutex
	conn *pgconn.PgConn // nil before the first read, after an error and after close
}

// read returns the description of the database. It reconnects if the connection was lost since the last read.
func (d *schemaReader) read() (*schemaInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := d.conn != nil
	out, err := d.readOnce()
	if err != nil && kept {
		return d.readOnce()
	}
	return out, err
}

func (d *schemaReader) readOnce() (out *schemaInfo, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), catalogTime)
	defer cancel()
	if d.conn == nil {
		// A client may hold a lock on what it is changing for a long time.
		parameters := map[string]string{"database": d.database, "application_name": applicationName, "lock_timeout": "1s"}
		if d.conn, err = connect(ctx, d.from, parameters); err != nil {
			d.conn = nil
			return nil, err
		}
	}
	if out, err = readSchema(ctx, d.conn); err != nil {
		d.disconnect()
	}
	return out, err
}

// close closes the connection: a database with connections can't be dropped.
func (d *schemaReader) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.disconnect()
}

func (d *schemaReader) disconnect() {
	if d.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = d.conn.Close(ctx)
	d.conn = nil
}
