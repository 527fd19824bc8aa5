package postgres

import (
	"context"
	"fmt"
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

// schemaInfo holds what a server's catalog says about its tables.
type schemaInfo struct {
	relations map[uint32]*relation
	defaults  []column // with a default or generation expression
	triggers  []trigger
	views     []dependency
	serials   []serial
}

type column struct {
	schema, table, name, expression string
	generated                       bool
}

type trigger struct {
	table, name, function, source, arguments string
}

// dependency is a column that a view reads.
type dependency struct {
	view          uint32
	table, column string
	kind          uint32 // type of the column
	kinds         map[string]uint32
}

const columnsQuery = `SELECT c.oid, n.nspname, c.relname, a.attnum, a.attname, a.atttypid, coalesce(pg_get_expr(d.adbin, d.adrelid), ''), a.attgenerated <> '', c.relkind
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
	LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
	WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')`

const triggersQuery = `SELECT c.relname, t.tgname, p.proname, p.prosrc, encode(t.tgargs, 'escape')
	FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid WHERE NOT t.tgisinternal AND t.tgenabled <> 'D'`

const viewsQuery = `SELECT DISTINCT r.ev_class, c.relname, a.attname, a.atttypid
	FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid AND d.refclassid = 'pg_class'::regclass
	JOIN pg_class c ON c.oid = d.refobjid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid
	WHERE d.refobjsubid > 0 AND r.ev_class <> c.oid AND c.oid >= 16384`

const serialsQuery = `SELECT c.relname, a.attname, quote_ident(n.nspname) || '.' || quote_ident(s.relname), q.seqincrement
	FROM (SELECT d.adrelid AS of, d.adnum AS at, p.refobjid AS sequence
			FROM pg_attrdef d JOIN pg_depend p ON p.classid = 'pg_attrdef'::regclass AND p.objid = d.oid AND p.refclassid = 'pg_class'::regclass
		UNION SELECT refobjid, refobjsubid, objid FROM pg_depend WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND deptype = 'i') AS u
	JOIN pg_class c ON c.oid = u.of JOIN pg_attribute a ON a.attrelid = u.of AND a.attnum = u.at
	JOIN pg_class s ON s.oid = u.sequence AND s.relkind = 'S' JOIN pg_namespace n ON n.oid = s.relnamespace JOIN pg_sequence q ON q.seqrelid = s.oid`

// readSchema reads a server's catalog.
func readSchema(ctx context.Context, c *pgconn.PgConn) (*schemaInfo, error) {
	results, err := c.Exec(ctx, columnsQuery+";"+triggersQuery+";"+viewsQuery+";"+serialsQuery).ReadAll()
	if err != nil {
		return nil, err
	}
	out := &schemaInfo{relations: map[uint32]*relation{}}
	kinds := map[uint32]map[string]uint32{}
	for _, row := range results[0].Rows {
		oid := number(row[0])
		r := out.relations[oid]
		if r == nil {
			r = &relation{schema: string(row[1]), name: string(row[2]), columns: map[uint16]string{}}
			out.relations[oid] = r
		}
		name := string(row[4])
		r.columns[uint16(number(row[3]))] = name
		if len(row[6]) > 0 {
			out.defaults = append(out.defaults, column{r.schema, r.name, name, string(row[6]), row[7][0] == 't'})
		}
		if row[8][0] == 'v' || row[8][0] == 'm' {
			if kinds[oid] == nil {
				kinds[oid] = map[string]uint32{}
			}
			kinds[oid][name] = number(row[5])
		}
	}
	for _, row := range results[1].Rows {
		out.triggers = append(out.triggers, trigger{string(row[0]), string(row[1]), string(row[2]), string(row[3]), string(row[4])})
	}
	for _, row := range results[2].Rows {
		view := number(row[0])
		out.views = append(out.views, dependency{view, string(row[1]), string(row[2]), number(row[3]), kinds[view]})
	}
	for _, row := range results[3].Rows {
		one := serial{table: string(row[0]), column: string(row[1]), sequence: string(row[2])}
		_, _ = fmt.Sscan(string(row[3]), &one.increment)
		out.serials = append(out.serials, one)
	}
	return out, nil
}

func number(text []byte) uint32 {
	var n uint32
	for _, d := range text {
		n = n*10 + uint32(d-'0')
	}
	return n
}
