package sql

import (
	"regexp"
	"slices"
	"strings"
)

// Effect of a statement on what others see.
type Effect uint8

// Effects.
const (
	Session Effect = iota // of its own connection only
	Reads                 // nothing but reads
	Writes                // anything else: it may write, lock, or end a transaction
)

// Statement is what is known of a text, which may hold several statements.
type Statement struct {
	Name    string
	Text    string // of those that are not too long to be kept; who looks sets it
	Effect  Effect
	Changes bool // it changes its connection, whatever else it does
	Ordered bool // its rows have an order
	Nature  bool // its answer differs by nature: times, random numbers, settings, what a server says of itself
	Chance  bool // which rows it returns is not determined: a limit without an order
	Limited bool // it has a limit
	Merged  bool // rows that are alike may be one: DISTINCT, UNION
	Leaves  bool // all that it does is to write files of the server's machine, or to hand rows to programs there
	Star    bool // it may return columns that it does not name
	Words   map[string]Place
	Aliases map[string]string // names of tables within it; "" is one of rows in parentheses
	Tables  []string          // words that stand where tables are named, without their schemas
	Sets    []Set

	Sequence string // of the one call of nextval, as regclass reads it
}

// Functions is what a server says of its functions, by name.
type Functions map[string]Volatility

// Volatility of a function; of several with one name the worst.
type Volatility uint8

// Volatilities. A function that is not known is Volatile.
const (
	Volatile Volatility = iota
	Stable              // and immutable
)

// Look says what a text is.
func Look(text string, functions Functions) *Statement {
	tokens := scan(text)
	statements := split(tokens)
	s := &Statement{Name: short(nameOf(tokens), mostName), Words: map[string]Place{}, Aliases: map[string]string{}, Effect: Session, Leaves: len(statements) > 0}
	for _, one := range statements {
		j := judgement{tokens: one, functions: functions}
		e := j.effect()
		s.Effect = max(s.Effect, e)
		s.Changes = s.Changes || e == Session
		s.Leaves = s.Leaves && j.leaves()
		s.Nature = s.Nature || j.nature()
		s.Ordered = s.Ordered || j.ordered()
		s.Chance = s.Chance || j.chance()
		s.Limited = s.Limited || j.limited()
		s.Merged = s.Merged || j.has("distinct") || j.has("union") || j.has("intersect") || j.has("except")
		s.Star = s.Star || j.star()
		s.Sets = append(s.Sets, j.sets()...)
		s.places(one)
	}
	s.Sequence = s.sequence(text)
	return s
}

// split cuts at semicolons. Those within BEGIN ATOMIC make pieces that are taken for writes.
func split(tokens []token) (out [][]token) {
	from := 0
	for i, t := range tokens {
		if t.mark(';') {
			if i > from {
				out = append(out, tokens[from:i])
			}
			from = i + 1
		}
	}
	if from < len(tokens) {
		out = append(out, tokens[from:])
	}
	return out
}

var nextval = regexp.MustCompile(`(?i)\bnextval\s*\(\s*'((?:[^'\\]|'')*)'`)

// sequence is the name in the one call of nextval, as regclass reads it.
func (s *Statement) sequence(text string) string {
	if !s.Has("nextval") {
		return ""
	}
	found := nextval.FindAllStringSubmatch(text, 2)
	if len(found) != 1 {
		return ""
	}
	return strings.ReplaceAll(found[0][1], "''", "'")
}

// Has reports whether a statement has one of some words.
func (s *Statement) Has(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return s.Words[w] != 0 })
}
