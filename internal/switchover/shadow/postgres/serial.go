package postgres

import (
	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
)

// source is a column of a result whose values are numbers from a sequence.
type source struct {
	at       int
	inBinary bool
	serial
}

// sources returns the sources in the result of a statement.
func (c *catalog) sources(columns []pg.Column, s *sql.Statement, inBinary func(int) bool) (out []source) {
	if s == nil || s.Sequence == "" && !s.Has("insert") {
		return nil
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for i, column := range columns {
		if one := c.serialOf(column, s, len(columns)); one.sequence != "" {
			out = append(out, source{i, inBinary(i), one})
		}
	}
	return out
}

// serialOf returns the serial whose numbers a column of a result shows; zero: none.
func (c *catalog) serialOf(column pg.Column, s *sql.Statement, columns int) serial {
	if column.Table == 0 {
		if s.Sequence != "" && (columns == 1 || string(column.Name) == "nextval") {
			return serial{sequence: s.Sequence}
		}
		return serial{}
	}
	if !s.Has("insert") {
		return serial{}
	}
	for _, one := range c.serials {
		name := string(column.Name)
		if r := c.relations[column.Table]; r != nil && r.name == one.table {
			name = r.columns[column.Attribute]
		}
		if name == one.column && s.Has(one.table) {
			return one
		}
	}
	return serial{}
}

// insertedSerials returns the columns to which statements may give numbers from a sequence.
func (c *catalog) insertedSerials(executed []*sql.Statement) (out []serial) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.serials) == 0 {
		return nil
	}
	for _, s := range executed {
		if s == nil || !s.Has("insert", "copy", "merge") {
			continue
		}
		for _, one := range c.serials {
			if s.Has(one.table) {
				out = append(out, one)
			}
		}
	}
	return out
}

// markSkipped records that targets don't get statements that may have taken numbers in production.
func (c *catalog) markSkipped(executed []*sql.Statement) {
	for _, one := range c.insertedSerials(executed) {
		c.mu.Lock()
		c.ahead[one] = true
		c.mu.Unlock()
	}
}

// excludeShifted leaves out columns whose numbers differ from production's, until an answer shows the
// position of the sequence.
func (c *catalog) excludeShifted(columns []serial, tells bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range columns {
		switch {
		case c.ahead[one] && tells:
			delete(c.ahead, one)
		case c.ahead[one]:
			c.excludeLocked(one.table, one.column, "numbers of a sequence, some of which production used for a statement that failed only there")
		}
	}
}

// sourcesOfNext returns the columns of the next rows that show numbers from sequences.
func (u *unit) sourcesOfNext(c *catalog) []source {
	p := u.next()
	if p.of == nil || !p.of.described {
		return nil
	}
	return c.sources(p.of.columns, p.of.Statement, func(i int) bool { return pg.FormatOf(p.formats, i) != 0 })
}
