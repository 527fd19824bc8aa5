package postgres

import (
	"slices"
	"unique"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// statuses holds the settings that a server has last reported (ParameterStatus). Sessions share nearly all of
// them, so the strings are interned.
type statuses []status

type status struct{ name, value unique.Handle[string] }

// maxStatuses is far above what servers report.
const maxStatuses = 64

// set records a ParameterStatus.
func (s *statuses) set(body []byte) {
	name, value, err := pg.TwoStrings(body)
	if err != nil {
		return
	}
	n, v := unique.Make(name), unique.Make(value)
	i := slices.IndexFunc(*s, func(known status) bool { return known.name == n })
	switch {
	case i >= 0:
		(*s)[i].value = v
	case len(*s) < maxStatuses:
		*s = append(*s, status{n, v})
	}
}

// changes appends the ParameterStatus messages that turn s into later.
func (s statuses) changes(dst []byte, later statuses) []byte {
	for _, l := range later {
		if slices.Contains(s, l) {
			continue
		}
		dst = pg.Append(dst, pg.ParameterStatus, append([]byte(l.name.Value()), 0), append([]byte(l.value.Value()), 0))
	}
	return dst
}
