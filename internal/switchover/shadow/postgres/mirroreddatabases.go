package postgres

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// subset is the set of mirrored databases, as targets may lack some; nil: all. Clients of other databases use
// production only.
type subset map[string]bool

func newSubset(databases []string) subset {
	if len(databases) == 0 {
		return nil
	}
	s := subset{}
	for _, name := range databases {
		s[name] = true
	}
	return s
}

// admits returns nil if the database is mirrored.
func (s subset) admits(database string) error {
	if s == nil || s[database] {
		return nil
	}
	return fmt.Errorf("%w: a client of database %.64q, which --only-database does not name", shadow.ErrUnmirrored, database)
}

// names returns the databases, or the given one if all are mirrored.
func (s subset) names(other string) []string {
	if s == nil {
		return []string{other}
	}
	return slices.Sorted(maps.Keys(s))
}
