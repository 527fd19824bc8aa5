package postgres

import (
	"bytes"

	"github.com/cinch-layer/cinch/internal/wire/pg"
	"github.com/cinch-layer/cinch/internal/wire/pg/sql"
)

// followed is a database's catalog, and how it comes to know what clients define: a definition marks it, and it is read again when an
// answer comes that can't be judged without. So those who only define don't wait for it, nor production with them.
type followed struct {
	*catalog
	production *describer // nil: it does not let us ask
	control    *describer
	functions  sql.Functions

	lacks lack // the mirror's goroutine's
	users int  // connections of clients; too
}

// lack is what a catalog may not know of.
type lack uint8

const (
	lacksNothing lack = iota
	lacksTables       // new ones
	lacksChanges      // of those that it knows
)

// defines is what the command of a tag may define that a catalog has to know.
func defines(tag []byte) lack {
	for _, verb := range []string{"CREATE TABLE", "CREATE SCHEMA", "CREATE MATERIALIZED", "CREATE FOREIGN TABLE", "IMPORT"} {
		if bytes.HasPrefix(tag, []byte(verb)) {
			return lacksTables
		}
	}
	for _, verb := range []string{"CREATE VIEW", "CREATE FUNCTION", "CREATE TRIGGER", "CREATE RULE", "CREATE EXTENSION", "ALTER", "DO"} {
		if bytes.HasPrefix(tag, []byte(verb)) {
			return lacksChanges
		}
	}
	return lacksNothing
}

// mark has it be one that may not know what a client has defined.
func (f *followed) mark(what lack) { f.lacks = max(f.lacks, what) }

// catchUp reads the catalog again if an answer to a statement can't be judged without. It says whether it did.
func (f *followed) catchUp(s *sql.Statement, columns []pg.Column) bool {
	if f.lacks == lacksNothing || s == nil || f.lacks == lacksTables && f.knows(s, columns) || f.lacks == lacksChanges && ofNoTable(s, columns) {
		return false
	}
	f.lacks = lacksNothing
	f.read()
	return true
}

// ofNoTable reports whether an answer has nothing of a users' table.
func ofNoTable(s *sql.Statement, columns []pg.Column) bool {
	for _, c := range columns {
		if c.Table >= firstOwn {
			return false
		}
	}
	return len(s.Tables) == 0
}

// read asks production, and the control if that does not tell.
func (f *followed) read() {
	if f.production != nil && f.readFrom(f.production, true) == nil {
		return
	}
	_ = f.readFrom(f.control, false)
}

// readBoth asks the control beside production.
func (f *followed) readBoth() {
	f.read()
	if f.production != nil {
		f.readControl()
	}
}

// readControl asks the control, and lets it go.
func (f *followed) readControl() {
	_ = f.readFrom(f.control, false)
	f.control.letGo()
}

func (f *followed) readFrom(from *describer, production bool) error {
	d, err := from.read()
	if err != nil {
		return err
	}
	f.use(d, production)
	f.learn(d, f.functions)
	return nil
}

// enter and exit note that a client uses the database.
func (f *followed) enter() { f.users++ }

func (f *followed) exit() {
	if f.users--; f.users == 0 {
		f.letGo()
	}
}

func (f *followed) letGo() {
	f.control.letGo()
	if f.production != nil {
		f.production.letGo()
	}
}
