package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
)

// catalogs holds the catalogs of the databases that clients use. They are read from production, if its URL's
// user may log in, and from the control.
type catalogs struct {
	control    endpoint.Upstream
	production *endpoint.Upstream // nil: it refuses the login
	functions  sql.Functions
	ignored    []column // by the user
	only       subset

	mu      sync.Mutex
	all     map[string]*trackedCatalog
	reading sync.WaitGroup
}

// ErrColumn is wrapped by the error for a text that is not schema.table.column.
var ErrColumn = errors.New("expected schema.table.column")

// parseColumns parses "schema.table.column" texts.
func parseColumns(texts []string) (out []column, err error) {
	for _, text := range texts {
		parts := strings.Split(text, ".")
		if len(parts) != 3 || slices.Contains(parts, "") {
			return nil, fmt.Errorf("%w: %q", ErrColumn, text)
		}
		out = append(out, column{schema: parts[0], table: parts[1], name: parts[2]})
	}
	return out, nil
}

// of returns the catalog of a database. It waits until the catalog has been read once from production.
func (cs *catalogs) of(database string) *trackedCatalog {
	cs.mu.Lock()
	f := cs.all[database]
	if f == nil {
		f = cs.track(database)
		cs.all[database] = f
	}
	cs.mu.Unlock()
	f.first.Do(func() {
		f.read()
		if f.production != nil {
			cs.reading.Go(f.readControl) // the control is read in the background
		}
	})
	return f
}

func (cs *catalogs) track(database string) *trackedCatalog {
	f := &trackedCatalog{catalog: newCatalog(), functions: cs.functions, control: &schemaReader{from: cs.control, database: database}}
	if cs.production != nil {
		f.production = &schemaReader{from: *cs.production, database: database}
	}
	for _, one := range cs.ignored {
		f.exclude(one.table, one.name, "declared with --ignore-column")
	}
	return f
}

// close closes all connections.
func (cs *catalogs) close() {
	cs.reading.Wait()
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, f := range cs.all {
		f.close()
	}
}

// probeProduction finds out whether production accepts the login of its URL's user.
func (cs *catalogs) probeProduction(ctx context.Context, production endpoint.Upstream) {
	if production.Address == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, catalogTime)
	defer cancel()
	c, err := connect(ctx, production, map[string]string{"application_name": applicationName})
	if err != nil {
		return
	}
	_ = c.Close(ctx)
	cs.production = &production
}

// lines returns the lines for the report.
func (cs *catalogs) lines() (out []string) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.all {
		out = append(out, c.lines()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
