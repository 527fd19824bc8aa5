package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a server's version, from its greeting; zero: unknown.
type Version struct{ Major, Minor int }

// ParseVersion reads the version in a greeting, "Tarantool 2.6.0 (Binary) …"; zero if there is none.
func ParseVersion(greeting string) (v Version) {
	text, ours := strings.CutPrefix(greeting, "Tarantool ")
	major, rest, dot := strings.Cut(text, ".")
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	m, err := strconv.Atoi(major)
	n, err2 := strconv.Atoi(rest[:end])
	if !ours || !dot || err != nil || err2 != nil {
		return Version{}
	}
	return Version{m, n}
}

// AtLeast reports whether the version is known and not lower than the given one.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

func (v Version) String() string {
	if v == (Version{}) {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}
