package postgres

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
)

// catalog records the nondeterministic columns of a database: servers or statements give them values that
// differ between servers. It is safe for concurrent use. Tables are named without their schema, as most
// statements name them: a column left out of one table is left out of all tables of that name.
type catalog struct {
	mu             sync.RWMutex
	excluded       map[string]map[string]string // reason why it is left out, by table and column
	relations      map[uint32]*relation         // as numbered by production, or else by the control
	names          map[string]bool              // names of the relations
	fromProduction bool                         // the relations are production's
	serials        []serial
	ahead          map[serial]bool   // production may have taken numbers that targets have not
	seen           map[string]string // reasons, for columns that results contained
	notes          map[string]bool
}

// serial is a column that takes its numbers from a sequence.
type serial struct {
	table, column string // "": none
	sequence      string // as regclass parses it
	increment     int64  // 0: unknown
}

// relation is a table or a view.
type relation struct {
	schema, name string
	columns      map[uint16]string
}

// firstUserOID is the first OID of users' types and tables. Servers number theirs differently.
const firstUserOID = 16384

func newCatalog() *catalog {
	return &catalog{excluded: map[string]map[string]string{}, relations: map[uint32]*relation{}, ahead: map[serial]bool{}, seen: map[string]string{}, notes: map[string]bool{}}
}

// exclude leaves a column out of the comparison of results and of data.
func (c *catalog) exclude(table, column, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.excludeLocked(table, column, reason)
}

func (c *catalog) excludeLocked(table, column, reason string) {
	if _, name, ok := strings.Cut(table, "."); ok {
		table = name
	}
	if c.excluded[table] == nil {
		c.excluded[table] = map[string]string{}
	}
	if c.excluded[table][column] == "" {
		c.excluded[table][column] = reason
	}
}

// excludedIn returns the columns that are left out of a table, with reasons.
func (c *catalog) excludedIn(table string) map[string]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.excluded[table])
}

// learnSets records the columns to which a statement of production has given nondeterministic values.
func (c *catalog) learnSets(s *sql.Statement) {
	if s == nil || len(s.Sets) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, set := range s.Sets {
		if column := c.columnName(set); column != "" {
			c.excludeLocked(set.Table, column, "a statement sets it to the time, a random number or the like")
		}
	}
}

// columnName returns the column of a Set, which may have only its number.
func (c *catalog) columnName(set sql.Set) string {
	if set.Column != "" {
		return set.Column
	}
	for _, r := range c.relations {
		if r.name != set.Table {
			continue
		}
		numbers := slices.Sorted(maps.Keys(r.columns))
		if set.Index < len(numbers) {
			return r.columns[numbers[set.Index]]
		}
	}
	return ""
}

// hasTables reports whether the catalog has the tables of a result and those that the statement names.
func (c *catalog) hasTables(s *sql.Statement, columns []pg.Column) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, column := range columns {
		if r := c.relations[column.Table]; c.fromProduction && column.Table >= firstUserOID && (r == nil || r.columns[column.Attribute] == "") {
			return false
		}
	}
	return !slices.ContainsFunc(s.Tables, func(name string) bool { return !c.names[name] })
}

// excludedTables returns the tables in a statement that have columns to leave out.
func (c *catalog) excludedTables(s *sql.Statement) (tables []string) {
	if s == nil || len(c.excluded) == 0 {
		return nil
	}
	for w := range s.Words {
		if c.excluded[w] != nil {
			tables = append(tables, w)
		}
	}
	return tables
}

// positions returns the indexes of the columns of a result that are left out.
func (c *catalog) positions(columns []pg.Column, s *sql.Statement) (out []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.excluded) == 0 {
		return nil
	}
	tables := c.excludedTables(s)
	expressions := c.computesExcluded(tables, s)
	for i, column := range columns {
		switch {
		case column.Attribute == 0 && expressions: // whole-row values included
		case column.Attribute != 0 && c.isExcludedColumn(column, tables, s):
		default:
			continue
		}
		out = append(out, i)
	}
	return out
}

// isExcludedColumn reports whether a column is left out. It looks it up by table and attribute number, or by
// name.
func (c *catalog) isExcludedColumn(column pg.Column, tables []string, s *sql.Statement) bool {
	if r := c.relations[column.Table]; r != nil {
		name := r.columns[column.Attribute]
		named := s != nil && s.Words[r.name] != 0
		if c.fromProduction || named || name == string(column.Name) {
			return c.checkExcluded(r.name, name)
		}
	}
	return slices.ContainsFunc(tables, func(t string) bool { return c.checkExcluded(t, string(column.Name)) })
}

// checkExcluded reports whether a column is left out, and records that a result has it.
func (c *catalog) checkExcluded(table, column string) bool {
	reason := c.excluded[table][column]
	if reason != "" {
		c.seen[table+"."+column] = reason
	}
	return reason != ""
}

// computesExcluded reports whether the statement may return values computed from a column that is left out,
// or from a whole row of its table.
func (c *catalog) computesExcluded(tables []string, s *sql.Statement) bool {
	return slices.ContainsFunc(tables, func(t string) bool {
		return c.occursAt(t, s, sql.Listed) || wholeRow(t, s)
	})
}

// occursAt reports whether a column that is left out of the table stands at a kind of place in the statement.
func (c *catalog) occursAt(table string, s *sql.Statement, place sql.Place) (found bool) {
	for column, reason := range c.excluded[table] {
		if s.Words[column]&place != 0 {
			c.seen[table+"."+column] = reason
			found = true
		}
	}
	return found
}

func wholeRow(table string, s *sql.Statement) bool {
	if s.Words[table]&sql.Listed != 0 && s.Words[table]&sql.Named != 0 {
		return true
	}
	for alias, of := range s.Aliases {
		if (of == table || of == "") && s.Words[alias]&sql.Listed != 0 {
			return true
		}
	}
	return false
}

// comparison says how the result of a statement is compared.
type comparison struct {
	nondeterministic bool // compare only success: other rows may be chosen
	unordered        bool // ignore the order of rows
	countOnly        bool // compare only the number of rows
}

// comparisonOf returns how columns that are left out affect a result, apart from being returned in it.
func (c *catalog) comparisonOf(s *sql.Statement) (t comparison) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, table := range c.excludedTables(s) {
		if c.occursAt(table, s, sql.Choosing) || s.Dedups && (s.Star || c.occursAt(table, s, sql.Listed)) {
			t.nondeterministic = true
		}
		if c.occursAt(table, s, sql.Ordering) {
			t.unordered = true
			t.countOnly = t.countOnly || s.Limited
		}
		if s.Words["copy"] != 0 {
			t.countOnly = true
		}
	}
	return t
}

// maxNotes limits the columns that a report names.
const maxNotes = 50

// lines returns the columns that were left out of results, and the notes.
func (c *catalog) lines() (out []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, column := range slices.Sorted(maps.Keys(c.seen)) {
		out = append(out, column+": "+c.seen[column])
	}
	if more := len(out) - maxNotes; more > 0 {
		out = append(out[:maxNotes], fmt.Sprintf("and %d columns more", more))
	}
	return append(out, slices.Sorted(maps.Keys(c.notes))...)
}

// allExcluded returns all columns that are left out, and the notes.
func (c *catalog) allExcluded() (columns, notes []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for table, left := range c.excluded {
		for column, reason := range left {
			columns = append(columns, table+"."+column+": "+reason)
		}
	}
	slices.Sort(columns)
	return columns, slices.Sorted(maps.Keys(c.notes))
}

// exclusions lists what is left out of an operation's results. It is decided once, from production's column
// descriptions, so that both targets' answers are compared alike.
type exclusions struct {
	byResult map[int][]int // columns by the index of the result
}

// all stands for all columns of a result with unknown columns.
const all = -1

func (s *exclusions) columns(result int) []int {
	if s == nil {
		return nil
	}
	return s.byResult[result]
}

func (s *exclusions) add(result int, columns []int) *exclusions {
	if len(columns) == 0 {
		return s
	}
	if s == nil {
		s = &exclusions{byResult: map[int][]int{}}
	}
	s.byResult[result] = columns
	return s
}

// appendKept appends the values of a row to dst, except for the columns in left.
func appendKept(dst, row []byte, left []int) []byte {
	if left[0] == all {
		return dst
	}
	err := pg.Fields(row, func(i int, value []byte) {
		if len(left) > 0 && left[0] == i {
			left = left[1:]
			return
		}
		length := int32(-1)
		if value != nil {
			length = int32(len(value))
		}
		dst = append(binary.BigEndian.AppendUint32(dst, uint32(length)), value...)
	})
	if err != nil {
		return append(dst, row...)
	}
	return dst
}

// excludedOfNext returns the columns that are left out of the next rows.
func (u *unit) excludedOfNext(c *catalog) []int {
	s := u.next().of
	switch {
	case s == nil:
		return nil
	case s.described:
		return c.positions(s.columns, s.Statement)
	case c.mayReturnExcluded(s.Statement):
		return []int{all}
	}
	return nil
}

// mayReturnExcluded reports whether a statement may return columns that are left out.
func (c *catalog) mayReturnExcluded(s *sql.Statement) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	tables := c.excludedTables(s)
	return len(tables) > 0 && (s.Star || c.computesExcluded(tables, s))
}
