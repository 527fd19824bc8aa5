package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/internal/wire/pg"
	"github.com/cinch-layer/cinch/internal/wire/pg/sql"
)

// catalog is what is known of the columns of a database whose contents differ by nature: servers give them values, or statements do, that are
// another at each. It is safe for concurrent use. Tables are named without their schema, as statements mostly name them: what is left
// out of one table is left out of others of its name.
type catalog struct {
	mu        sync.RWMutex
	left      map[string]map[string]string // reason, by table and column
	relations map[uint32]*relation         // production's, or the control's
	names     map[string]bool              // theirs
	own       bool                         // they are production's
	serials   []serial
	ahead     map[serial]bool   // of which production may have taken numbers that targets have not
	met       map[string]string // reasons of those that an answer had
	notes     map[string]bool
}

// serial is a column that takes its numbers from a sequence.
type serial struct {
	table, column string // "": none
	sequence      string // as regclass reads it
	increment     int64  // 0: not known
}

// relation is a table or a view.
type relation struct {
	schema, name string
	columns      map[uint16]string
}

// firstOwn is the first number that a server gives to users' types and tables: servers number theirs differently.
const firstOwn = 16384

func newCatalog() *catalog {
	return &catalog{left: map[string]map[string]string{}, relations: map[uint32]*relation{}, ahead: map[serial]bool{}, met: map[string]string{}, notes: map[string]bool{}}
}

// leave has a column left out of what is compared, of answers and of the data.
func (c *catalog) leave(table, column, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaves(table, column, reason)
}

func (c *catalog) leaves(table, column, reason string) {
	if _, name, ok := strings.Cut(table, "."); ok {
		table = name
	}
	if c.left[table] == nil {
		c.left[table] = map[string]string{}
	}
	if c.left[table][column] == "" {
		c.left[table][column] = reason
	}
}

// columnsOf are those that are left out of a table, with reasons.
func (c *catalog) columnsOf(table string) map[string]string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return maps.Clone(c.left[table])
}

// follow learns from a statement that production has carried out.
func (c *catalog) follow(s *sql.Statement) {
	if s == nil || len(s.Sets) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, set := range s.Sets {
		if column := c.named(set); column != "" {
			c.leaves(set.Table, column, "a statement gives it what differs by nature")
		}
	}
}

// named is the column of a Set, also if that has but its number.
func (c *catalog) named(set sql.Set) string {
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

// knows reports whether the tables of an answer, and those that a statement names, are known.
func (c *catalog) knows(s *sql.Statement, columns []pg.Column) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, column := range columns {
		if r := c.relations[column.Table]; c.own && column.Table >= firstOwn && (r == nil || r.columns[column.Attribute] == "") {
			return false
		}
	}
	return !slices.ContainsFunc(s.Tables, func(name string) bool { return !c.names[name] })
}

// touched are the tables in a statement that have columns which are left out.
func (c *catalog) touched(s *sql.Statement) (tables []string) {
	if s == nil || len(c.left) == 0 {
		return nil
	}
	for w := range s.Words {
		if c.left[w] != nil {
			tables = append(tables, w)
		}
	}
	return tables
}

// positions are those of an answer's columns that are left out.
func (c *catalog) positions(columns []pg.Column, s *sql.Statement) (out []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.left) == 0 {
		return nil
	}
	tables := c.touched(s)
	expressions := c.listed(tables, s)
	for i, column := range columns {
		switch {
		case column.Attribute == 0 && expressions: // of a row as a whole, too
		case column.Attribute != 0 && c.isLeft(column, tables, s):
		default:
			continue
		}
		out = append(out, i)
	}
	return out
}

// isLeft finds a column by the numbers of its table and its own, or by its name.
func (c *catalog) isLeft(column pg.Column, tables []string, s *sql.Statement) bool {
	if r := c.relations[column.Table]; r != nil {
		name := r.columns[column.Attribute]
		named := s != nil && s.Words[r.name] != 0
		if c.own || named || name == string(column.Name) {
			return c.meet(r.name, name)
		}
	}
	return slices.ContainsFunc(tables, func(t string) bool { return c.meet(t, string(column.Name)) })
}

// meet notes a column that an answer has, and says whether it is left out.
func (c *catalog) meet(table, column string) bool {
	reason := c.left[table][column]
	if reason != "" {
		c.met[table+"."+column] = reason
	}
	return reason != ""
}

// listed reports whether what a statement returns may be computed from a column that is left out, or from a row of its table.
func (c *catalog) listed(tables []string, s *sql.Statement) bool {
	return slices.ContainsFunc(tables, func(t string) bool {
		return c.stands(t, s, sql.Listed) || wholeRow(t, s)
	})
}

// stands reports whether a column that is left out of a table has such a place in a statement.
func (c *catalog) stands(table string, s *sql.Statement, place sql.Place) (found bool) {
	for column, reason := range c.left[table] {
		if s.Words[column]&place != 0 {
			c.met[table+"."+column] = reason
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

// treatment is how the answer to a statement is compared.
type treatment struct {
	nature    bool // by success: other rows may be chosen
	unordered bool // the order of rows differs
	counts    bool // which rows come differs, how many does not
}

// treat says what columns that are left out do to an answer, beside those that it returns.
func (c *catalog) treat(s *sql.Statement) (t treatment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, table := range c.touched(s) {
		if c.stands(table, s, sql.Choosing) || s.Merged && (s.Star || c.stands(table, s, sql.Listed)) {
			t.nature = true
		}
		if c.stands(table, s, sql.Ordering) {
			t.unordered = true
			t.counts = t.counts || s.Limited
		}
		if s.Words["copy"] != 0 {
			t.counts = true
		}
	}
	return t
}

// mostNotes in a report.
const mostNotes = 50

// lines are the columns that were left out of answers, and what else is to be known.
func (c *catalog) lines() (out []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, column := range slices.Sorted(maps.Keys(c.met)) {
		out = append(out, column+": "+c.met[column])
	}
	if more := len(out) - mostNotes; more > 0 {
		out = append(out[:mostNotes], fmt.Sprintf("and %d columns more", more))
	}
	return append(out, slices.Sorted(maps.Keys(c.notes))...)
}

// known are all columns that are left out, and what else is to be known.
func (c *catalog) known() (columns, notes []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for table, left := range c.left {
		for column, reason := range left {
			columns = append(columns, table+"."+column+": "+reason)
		}
	}
	slices.Sort(columns)
	return columns, slices.Sorted(maps.Keys(c.notes))
}
