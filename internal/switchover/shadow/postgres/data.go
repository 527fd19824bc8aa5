package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// sampleBytes is the size up to which tables are compared completely.
const sampleBytes = 64 << 20

// A sample consists of sampleRanges ranges of primary keys with sampleRows rows each, and of the last
// sampleRows rows.
const (
	sampleRanges = 20
	sampleRows   = 1000
)

// checkData compares rows and checksums of all tables of the databases that clients used. A checksum is the
// sum of the rows' hashes, so the position of rows does not matter. Each database is read in one snapshot per
// server.
func (cs *catalogs) checkData(ctx context.Context, how shadow.DataCheck, servers []*shadow.Target) (out []shadow.TableState, err error) {
	for _, database := range cs.names(servers[0].Upstream.Database) {
		f := cs.of(database)
		f.readBoth()
		d := &dataCheck{database: database, how: how, small: sampleBytes, catalog: f.catalog}
		err := d.open(ctx, servers)
		if err == nil {
			err = d.check(ctx)
		}
		out = append(out, d.found...)
		d.close()
		if err != nil {
			return out, fmt.Errorf("database %s: %w", database, err)
		}
	}
	return out, nil
}

// names returns the databases that clients used. If there is none it returns those to be mirrored, or the
// given one.
func (cs *catalogs) names(other string) []string {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.all) == 0 {
		return cs.only.names(other)
	}
	return slices.Sorted(maps.Keys(cs.all))
}

// dataCheck compares one database.
type dataCheck struct {
	database string
	how      shadow.DataCheck
	small    int64 // tables up to this many bytes are always compared completely
	catalog  *catalog
	names    []string // names of the servers
	conns    []*pgconn.PgConn
	found    []shadow.TableState
}

// snapshotSettings makes all servers format values alike. The settings are made after the startup, because
// pools support few settings in it.
var snapshotSettings = []string{
	"timezone = 'UTC'", "datestyle = 'ISO'", "intervalstyle = 'postgres'", "extra_float_digits = 1", "bytea_output = 'hex'", "xmloption = 'content'", "lc_monetary = 'C'",
	"lock_timeout = '5s'", "statement_timeout = 0", "search_path = pg_catalog",
}

// beginSnapshot begins a transaction with snapshotSettings, which end with it.
var beginSnapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL " + strings.Join(snapshotSettings, "; SET LOCAL ")

// open begins a snapshot at each server.
func (d *dataCheck) open(ctx context.Context, servers []*shadow.Target) error {
	for _, s := range servers {
		c, err := connect(ctx, s.Upstream, map[string]string{"application_name": applicationName, "database": d.database})
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		d.names, d.conns = append(d.names, s.Name), append(d.conns, c)
		if _, err := c.Exec(ctx, beginSnapshot).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

func (d *dataCheck) close() {
	ctx, cancel := context.WithTimeout(context.Background(), catalogTime)
	defer cancel()
	for _, c := range d.conns {
		_ = c.Close(ctx)
	}
}

// storedTable is a table whose rows are compared.
type storedTable struct {
	name    string // schema.table
	quoted  string // as written after FROM
	table   string
	bytes   int64
	columns []string // quoted
	names   []string // not quoted
	key     []string // columns of the primary key; not quoted
}

const storedQuery = `SELECT n.nspname, c.relname, format(CASE c.relkind WHEN 'p' THEN '%I.%I' ELSE 'ONLY %I.%I' END, n.nspname, c.relname),
	coalesce((SELECT sum(pg_table_size(relid)) FROM pg_partition_tree(c.oid)), pg_table_size(c.oid)),
	a.attname, quote_ident(a.attname), coalesce(a.attnum = ANY (i.indkey), false)
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
	LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
	WHERE c.relkind IN ('r', 'p', 'm') AND NOT c.relispartition AND c.relpersistence <> 't' AND (c.relkind <> 'm' OR c.relispopulated)
	AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'cinch_shadow') AND a.attnum > 0 AND NOT a.attisdropped
	ORDER BY c.oid, array_position(i.indkey::int2[], a.attnum), a.attnum`

// loadTables returns the tables of a server, by name.
func loadTables(ctx context.Context, c *pgconn.PgConn) (map[string]*storedTable, error) {
	results, err := c.Exec(ctx, storedQuery).ReadAll()
	if err != nil {
		return nil, err
	}
	out := map[string]*storedTable{}
	for _, row := range results[0].Rows {
		name := string(row[0]) + "." + string(row[1])
		t := out[name]
		if t == nil {
			t = &storedTable{name: name, table: string(row[1]), quoted: string(row[2])}
			_, _ = fmt.Sscan(string(row[3]), &t.bytes)
			out[name] = t
		}
		t.names, t.columns = append(t.names, string(row[4])), append(t.columns, string(row[5]))
		if row[6][0] == 't' {
			t.key = append(t.key, string(row[4]))
		}
	}
	return out, nil
}

// check compares the tables, small ones first.
func (d *dataCheck) check(ctx context.Context) error {
	all := make([]map[string]*storedTable, len(d.conns))
	known := map[string]*storedTable{}
	for i, c := range d.conns {
		var err error
		if all[i], err = loadTables(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", d.names[i], err)
		}
		for name, t := range all[i] {
			if known[name] == nil {
				known[name] = t
			}
		}
	}
	order := slices.SortedFunc(maps.Values(known), func(a, b *storedTable) int {
		if a.bytes != b.bytes {
			return int(min(max(a.bytes-b.bytes, -1), 1))
		}
		return strings.Compare(a.name, b.name)
	})
	for i, t := range order {
		if err := d.table(ctx, t, all); err != nil {
			for _, left := range order[i:] {
				d.found = append(d.found, shadow.TableState{Name: d.database + "." + left.name, State: shadow.TableSkipped, Why: "the time was up, or a server failed"})
			}
			return err
		}
	}
	return nil
}

// table compares one table.
func (d *dataCheck) table(ctx context.Context, t *storedTable, all []map[string]*storedTable) error {
	state := shadow.TableState{Name: d.database + "." + t.name}
	defer func() {
		if state.State != "" {
			d.found = append(d.found, state)
		}
	}()
	for i := range all {
		if all[i][t.name] == nil {
			state.State, state.Why = shadow.TableDiffers, "it is missing at "+d.names[i]
			if d.names[i] == "production" {
				state.State, state.Production = shadow.TableSkipped, shadow.TableDiffers
			}
			return nil
		}
	}
	q, err := d.query(ctx, t, &state)
	if err != nil {
		return d.skipTable(ctx, &state, []error{err})
	}
	sums, errs := d.sums(ctx, q)
	if errors.Join(errs...) != nil {
		return d.skipTable(ctx, &state, errs)
	}
	state.State = shadow.TableEqual
	for i, s := range sums {
		state.Rows = append(state.Rows, s.rows)
		switch {
		case s == sums[0]:
			if d.names[i] == "production" {
				state.Production = shadow.TableEqual
			}
		case d.names[i] == "production":
			state.Production = shadow.TableDiffers
		default:
			state.State, state.Why = shadow.TableDiffers, difference(sums[0].rows, s.rows)
		}
	}
	return nil
}

func difference(control, test int64) string {
	if control != test {
		return fmt.Sprintf("%d rows at control, %d at test", control, test)
	}
	return fmt.Sprintf("%d rows at both, with different values", control)
}

// skipTable records a table that can't be read and begins new transactions. It returns an error if the server
// itself fails.
func (d *dataCheck) skipTable(ctx context.Context, state *shadow.TableState, errs []error) error {
	var refused *pgconn.PgError
	for i, err := range errs {
		if err == nil {
			continue
		}
		if !errors.As(err, &refused) {
			return fmt.Errorf("%s: %w", d.names[i], err)
		}
		state.State, state.Why = shadow.TableSkipped, fmt.Sprintf("%s refuses: %s (%s)", d.names[i], refused.Message, refused.Code)
	}
	for i, c := range d.conns {
		if _, err := c.Exec(ctx, "ROLLBACK; "+beginSnapshot).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", d.names[i], err)
		}
	}
	return nil
}

// sum is the row count and checksum of a table.
type sum struct {
	rows int64
	hash string
}

// sums runs a query on all servers at once.
func (d *dataCheck) sums(ctx context.Context, query string) ([]sum, []error) {
	sums, errs := make([]sum, len(d.conns)), make([]error, len(d.conns))
	var asking sync.WaitGroup
	for i, c := range d.conns {
		asking.Go(func() {
			results, err := c.Exec(ctx, query).ReadAll()
			if err != nil {
				errs[i] = err
				return
			}
			row := results[0].Rows[0]
			_, errs[i] = fmt.Sscan(string(row[0]), &sums[i].rows)
			sums[i].hash = string(row[1])
		})
	}
	asking.Wait()
	return sums, errs
}

// query returns the query that computes the sum of a table, without the columns that are left out.
func (d *dataCheck) query(ctx context.Context, t *storedTable, state *shadow.TableState) (string, error) {
	left := d.catalog.excludedIn(t.table)
	var kept []string
	for i, name := range t.names {
		if reason := left[name]; reason != "" {
			state.Left = append(state.Left, name+": "+reason)
		} else {
			kept = append(kept, t.columns[i])
		}
	}
	hash := fmt.Sprintf(`hashtextextended(ROW(%s)::text COLLATE "C", 0)`, strings.Join(kept, ", "))
	ranges := "SELECT " + hash + " AS h FROM " + t.quoted
	keyLeft := slices.ContainsFunc(t.key, func(k string) bool { return left[k] != "" })
	if d.how == shadow.DataSample && t.bytes > d.small && len(t.key) > 0 && !keyLeft {
		state.Sampled = true
		var err error
		if ranges, err = d.sample(ctx, t, hash); err != nil {
			return "", err
		}
	}
	return "SELECT count(*), coalesce(sum(h::numeric), 0) FROM (" + ranges + ") AS rows", nil
}

// sample returns a query for ranges of the primary key. The first server chooses where they begin.
func (d *dataCheck) sample(ctx context.Context, t *storedTable, hash string) (string, error) {
	var key, literals, last []string
	for i, name := range t.names {
		if slices.Contains(t.key, name) {
			key = append(key, t.columns[i])
			literals = append(literals, "quote_literal("+t.columns[i]+")")
			last = append(last, t.columns[i]+" DESC")
		}
	}
	const pageBytes = 8192
	percent := min(100, 100*float64(4*sampleRanges*pageBytes)/float64(t.bytes))
	results, err := d.conns[0].Exec(ctx, fmt.Sprintf("SELECT concat_ws(', ', %s) FROM %s TABLESAMPLE SYSTEM (%g) ORDER BY random() LIMIT %d",
		strings.Join(literals, ", "), t.quoted, percent, sampleRanges)).ReadAll()
	if err != nil {
		return "", err
	}
	part := "(SELECT " + hash + " AS h FROM " + t.quoted + " %s ORDER BY %s LIMIT " + fmt.Sprint(sampleRows) + ")"
	parts := []string{fmt.Sprintf(part, "", strings.Join(last, ", "))}
	for _, row := range results[0].Rows {
		where := fmt.Sprintf("WHERE (%s) >= (%s)", strings.Join(key, ", "), row[0])
		parts = append(parts, fmt.Sprintf(part, where, strings.Join(key, ", ")))
	}
	return strings.Join(parts, " UNION ALL "), nil
}
