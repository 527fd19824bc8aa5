package postgres

import (
	"bytes"
	"sync"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
)

// trackedCatalog is a database's catalog that follows what clients define: a definition marks it, and it is
// read again when an answer comes that can't be compared otherwise. So clients that only define things don't
// wait for it, and neither does production.
type trackedCatalog struct {
	*catalog
	production *schemaReader // nil: it refuses the login
	control    *schemaReader
	functions  sql.Functions
	first      sync.Once // reads it

	staleness staleness // used only by the mirror's goroutine
	users     int       // connections of clients; used only by the mirror's goroutine
}

// staleness says what a catalog may be missing.
type staleness uint8

const (
	upToDate      staleness = iota
	missesTables            // new tables
	missesChanges           // changes to known tables
)

// stalenessAfter returns what a catalog may be missing after the command with this tag.
func stalenessAfter(tag []byte) staleness {
	for _, verb := range []string{"CREATE TABLE", "CREATE SCHEMA", "CREATE MATERIALIZED", "CREATE FOREIGN TABLE", "IMPORT"} {
		if bytes.HasPrefix(tag, []byte(verb)) {
			return missesTables
		}
	}
	for _, verb := range []string{"CREATE VIEW", "CREATE FUNCTION", "CREATE TRIGGER", "CREATE RULE", "CREATE EXTENSION", "ALTER", "DO"} {
		if bytes.HasPrefix(tag, []byte(verb)) {
			return missesChanges
		}
	}
	return upToDate
}

// mark records that the catalog may be missing what a client has defined.
func (f *trackedCatalog) mark(what staleness) { f.staleness = max(f.staleness, what) }

// refresh reads the catalog again if the answer to a statement can't be compared otherwise. It reports
// whether it did.
func (f *trackedCatalog) refresh(s *sql.Statement, columns []pg.Column) bool {
	if f.staleness == upToDate || s == nil || f.staleness == missesTables && f.hasTables(s, columns) || f.staleness == missesChanges && ofNoTable(s, columns) {
		return false
	}
	f.staleness = upToDate
	f.read()
	return true
}

// ofNoTable reports whether neither the result nor the statement names a user's table.
func ofNoTable(s *sql.Statement, columns []pg.Column) bool {
	for _, c := range columns {
		if c.Table >= firstUserOID {
			return false
		}
	}
	return len(s.Tables) == 0
}

// read reads the catalog from production or, if that fails, from the control.
func (f *trackedCatalog) read() {
	if f.production != nil && f.readFrom(f.production, true) == nil {
		return
	}
	_ = f.readFrom(f.control, false)
}

// readBoth reads the catalog from production and from the control.
func (f *trackedCatalog) readBoth() {
	f.read()
	if f.production != nil {
		f.readControl()
	}
}

// readControl reads the catalog from the control and closes the connection.
func (f *trackedCatalog) readControl() {
	_ = f.readFrom(f.control, false)
	f.control.close()
}

func (f *trackedCatalog) readFrom(from *schemaReader, production bool) error {
	d, err := from.read()
	if err != nil {
		return err
	}
	f.setRelations(d, production)
	f.learn(d, f.functions)
	return nil
}

// enter and exit count the client connections to the database. The last exit closes the tool's connections.
func (f *trackedCatalog) enter() { f.users++ }

func (f *trackedCatalog) exit() {
	if f.users--; f.users == 0 {
		f.close()
	}
}

func (f *trackedCatalog) close() {
	f.control.close()
	if f.production != nil {
		f.production.close()
	}
}
