package sql

import (
	"regexp"
	"slices"
	"strings"
)

// Effect says what a statement may change for other connections.
type Effect uint8

// Effects.
const (
	Session Effect = iota // only its own connection
	Reads                 // it only reads
	Writes                // anything else: it may write, lock, or end a transaction
)

// Statement describes a text, which may hold several statements.
type Statement struct {
	Name              string
	Text              string // set by the caller, for texts that are not too long
	Effect            Effect
	ChangesSession    bool // it changes its own connection, whatever else it does
	TransactionScoped bool // what it does to its connection ends with the transaction
	Ordered           bool // its rows are sorted
	// Its result is nondeterministic: times, random numbers, settings, properties of the server.
	Nondeterministic bool
	ArbitraryRows    bool // which rows it returns is undetermined: a limit without an order
	Limited          bool // it has a limit
	Dedups           bool // equal rows may be merged: DISTINCT, UNION
	// It only writes files on the server's machine, or passes rows to programs there.
	WritesFiles bool
	Star        bool // it may return columns that it does not name
	Words       map[string]Place
	Aliases     map[string]string // alias to table; "" is a subquery in parentheses
	Tables      []string          // words where a table name is expected, without schemas
	Sets        []Set

	Sequence string // argument of its only nextval call, as regclass parses it
}

// Functions maps the names of a server's functions to their volatility.
type Functions map[string]Volatility

// Volatility of a function; if several functions share the name, the worst of theirs.
type Volatility uint8

// Volatilities. A function that is not known is Volatile.
const (
	Volatile Volatility = iota
	Stable              // or immutable
)

// Analyze examines a text.
func Analyze(text string, functions Functions) *Statement {
	tokens := scan(text)
	statements := split(tokens)
	s := &Statement{Name: short(nameOf(tokens), maxNameBytes), Words: map[string]Place{}, Aliases: map[string]string{}, Effect: Session, WritesFiles: len(statements) > 0}
	for _, one := range statements {
		a := analysis{tokens: one, functions: functions}
		e := a.effect()
		s.Effect = max(s.Effect, e)
		s.ChangesSession = s.ChangesSession || e == Session
		s.TransactionScoped = s.TransactionScoped || a.transactionScoped()
		s.WritesFiles = s.WritesFiles && a.writesFiles()
		s.Nondeterministic = s.Nondeterministic || a.nondeterministic()
		s.Ordered = s.Ordered || a.ordered()
		s.ArbitraryRows = s.ArbitraryRows || a.arbitraryRows()
		s.Limited = s.Limited || a.limited()
		s.Dedups = s.Dedups || a.has("distinct") || a.has("union") || a.has("intersect") || a.has("except")
		s.Star = s.Star || a.selectsAll()
		s.Sets = append(s.Sets, a.sets()...)
		s.places(one)
	}
	s.Sequence = s.sequence(text)
	return s
}

// split splits at semicolons. The pieces of a BEGIN ATOMIC body count as writes.
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

// sequence returns the argument of the only nextval call, as regclass parses it.
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

// Has reports whether a statement contains one of the words.
func (s *Statement) Has(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return s.Words[w] != 0 })
}
