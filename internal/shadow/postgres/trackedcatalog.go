package postgres

import (
	"bytes"

	"github.com/cinch-layer/cinch/internal/wire/pg"
	"github.com/cinch-layer/cinch/internal/wire/pg/sql"
)

// followed is a database's catalog that follows what clients define: a definition marks it, and it is read
// again when an answer comes that can't be compared otherwise. So clients that only define things don't wait
// for it, and neither does production.
type followed struct {
	*catalog
	production *describer // nil: it refuses the login
	control    *describer
	functions  sql.Functions

	lacks lack // used only by the mirror's goroutine
	users int  // connections of clients; used only by the mirror's goroutine
}

// lack says what a catalog may be missing.
type lack uint8

const (
	lacksNothing lack = iota
	lacksTables       // new tables
	lacksChanges      // changes to known tables
)

// defines returns what a catalog may be missing after the command with this tag.
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

// mark records that the catalog may be missing what a client has defined.
func (f *followed) mark(what lack) { f.lacks = max(f.lacks, what) }

// catchUp reads the catalog again if the answer to a statement can't be compared otherwise. It reports
// whether it did.
func (f *followed) catchUp(s *sql.Statement, columns []pg.Column) bool {
	if f.lacks == lacksNothing || s == nil || f.lacks == lacksTables && f.knows(s, columns) || f.lacks == lacksChanges && ofNoTable(s, columns) {
		return false
	}
	f.lacks = lacksNothing
	f.read()
	return true
}

// ofNoTable reports whether neither the result nor the statement names a user's table.
func ofNoTable(s *sql.Statement, columns []pg.Column) bool {
	for _, c := range columns {
		if c.Table >= firstOwn {
			return false
		}
	}
	return len(s.Tables) == 0
}

// read reads the catalog from production or, if that fails, from the control.
func (f *followed) read() {
	if f.production != nil && f.readFrom(f.production, true) == nil {
		return
	}
	_ = f.readFrom(f.control, false)
}

// readBoth reads the catalog from production and from the control.
func (f *followed) readBoth() {
	f.read()
	if f.production != nil {
		f.readControl()
	}
}

// readControl reads the catalog from the control and closes the connection.
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

// enter and exit count the client connections to the database. The last exit closes the tool's connections.
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
