package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
)

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

// learn adds the nondeterministic columns in a server's description.
func (c *catalog) learn(d *schemaInfo, functions sql.Functions) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range d.defaults {
		if !one.generated && sql.Analyze("SELECT "+strings.ReplaceAll(one.expression, "::regclass", ""), functions).Nondeterministic { // nextval('…'::regclass)
			c.excludeLocked(one.table, one.name, "default "+one.expression)
		}
	}
	for _, t := range d.triggers {
		c.learnTrigger(t, functions)
	}
	for _, one := range d.defaults {
		if one.generated {
			c.learnGenerated(one, functions)
		}
	}
	for changed := true; changed; {
		changed = false
		for _, v := range d.views {
			changed = c.learnView(v, d.relations[v.view]) || changed
		}
	}
}

// learnTrigger examines the source of a trigger's function, if it is readable.
func (c *catalog) learnTrigger(t trigger, functions sql.Functions) {
	why := "trigger " + t.name + " sets it"
	if t.function == "moddatetime" {
		c.excludeLocked(t.table, strings.TrimSuffix(t.arguments, `\000`), why)
		return
	}
	columns := sql.Assigned(t.source, functions)
	for _, column := range columns {
		c.excludeLocked(t.table, column, why)
	}
	if len(columns) == 0 && sql.Analyze(t.source, functions).Nondeterministic {
		c.notes[fmt.Sprintf("table %s has the trigger %s, whose function uses the time, random numbers or the like: if it writes them, leave the columns out with --ignore-column", t.table, t.name)] = true
	}
}

// learnGenerated leaves out a column that is generated from columns that are left out.
func (c *catalog) learnGenerated(one column, functions sql.Functions) {
	words := sql.Analyze("SELECT "+one.expression, functions).Words
	for of := range c.excluded[one.table] {
		if words[of] != 0 {
			c.excludeLocked(one.table, one.name, "generated from "+of)
			return
		}
	}
}

// learnView leaves out the columns of a view that may show a column that is left out: the one of the same
// name or, without it, all of the same type.
func (c *catalog) learnView(v dependency, view *relation) (changed bool) {
	if c.excluded[v.table][v.column] == "" || view == nil {
		return false
	}
	var alike []string
	for name, kind := range v.kinds {
		if name == v.column {
			alike = []string{name}
			break
		}
		if kind == v.kind {
			alike = append(alike, name)
		}
	}
	for _, name := range alike {
		if c.excluded[view.name][name] == "" {
			c.excludeLocked(view.name, name, "from "+v.table+"."+v.column)
			changed = true
		}
	}
	return changed
}

// setRelations sets the tables and sequences as a server numbers them.
func (c *catalog) setRelations(d *schemaInfo, production bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fromProduction && !production {
		return
	}
	c.relations, c.serials, c.fromProduction = d.relations, d.serials, production
	c.names = map[string]bool{}
	for _, r := range d.relations {
		c.names[r.name] = true
	}
}

func number(text []byte) uint32 {
	var n uint32
	for _, d := range text {
		n = n*10 + uint32(d-'0')
	}
	return n
}
