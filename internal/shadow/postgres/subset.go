package postgres

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cinch-layer/cinch/internal/shadow"
)

// subset is the databases that are mirrored, as targets may not have all of them; nil: all. What clients of others do is production's alone.
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

// admits is nil for a database that is mirrored.
func (s subset) admits(database string) error {
	if s == nil || s[database] {
		return nil
	}
	return fmt.Errorf("%w: a client of database %.64q, which is not among those of --only-database", shadow.ErrUnmirrored, database)
}

// names of the databases; the given one if all are mirrored.
func (s subset) names(other string) []string {
	if s == nil {
		return []string{other}
	}
	return slices.Sorted(maps.Keys(s))
}
