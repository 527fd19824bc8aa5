package sql

// Place is where in a statement a word stands. One word may stand in several.
type Place uint8

// Places.
const (
	Named      Place = 1 << iota // anywhere else: in FROM, as a key word
	Listed                       // in a list of what is returned or set
	Ordering                     // in an ORDER BY
	Choosing                     // where it decides which rows there are: WHERE, JOIN, GROUP BY, and what is within these
	Qualifying                   // before a dot
)

// clauses begin places, up to the next one or the end of their parentheses.
var clauses = map[string]Place{
	"select": Listed, "returning": Listed, "set": Listed, "into": Listed,
	"from": Named, "join": Named, "values": Named, "update": Named, "delete": Named,
	"order": Ordering,
	"where": Choosing, "on": Choosing, "using": Choosing, "group": Choosing, "having": Choosing, "window": Choosing,
	"limit": Choosing, "offset": Choosing, "fetch": Choosing,
}

// places finds where the words of a statement stand. What is within a place that chooses, chooses too.
func (s *Statement) places(tokens []token) {
	around := []Place{Named}
	for i, t := range tokens {
		now := &around[len(around)-1]
		switch {
		case t.mark('('):
			around = append(around, *now)
		case t.mark(')') && len(around) > 1:
			around = around[:len(around)-1]
		case t.kind != word && t.kind != quoted:
		case i+1 < len(tokens) && tokens[i+1].mark('.'):
			s.Words[t.text] |= Qualifying
		default:
			s.Words[t.text] |= *now
			s.alias(tokens, i, *now)
			s.table(tokens, i, *now)
		}
		if place, begins := clauses[t.text]; begins && t.kind == word && !sticks(around) {
			*now = place
		}
	}
}

// sticks reports whether a place outside the current parentheses chooses.
func sticks(around []Place) bool {
	return len(around) > 1 && around[len(around)-2] == Choosing
}

// alias notes the name that a table, or what is in parentheses, has within the statement.
func (s *Statement) alias(tokens []token, i int, place Place) {
	if place != Named || i == 0 || isKeyWord(tokens[i].text) && tokens[i].kind == word {
		return
	}
	of := tokens[i-1]
	if of.is("as") && i > 1 {
		of = tokens[i-2]
	}
	switch {
	case of.mark(')'):
		s.Aliases[tokens[i].text] = ""
	case of.kind == quoted, of.kind == word && !isKeyWord(of.text):
		s.Aliases[tokens[i].text] = of.text
	}
}

// beforeTables are the words that a table's name stands behind.
var beforeTables = map[string]bool{"from": true, "join": true, "update": true, "into": true, "only": true, "table": true, "copy": true, "using": true}

// table notes a word that may name a table: one behind such a word, or in a list of a FROM, that calls no function.
func (s *Statement) table(tokens []token, i int, place Place) {
	if tokens[i].kind == word && isKeyWord(tokens[i].text) || i+1 < len(tokens) && tokens[i+1].mark('(') && !behind(tokens, i).is("into") {
		return
	}
	of := behind(tokens, i)
	if of.kind == word && beforeTables[of.text] || of.mark(',') && place == Named {
		s.Tables = append(s.Tables, tokens[i].text)
	}
}

// behind is what a name stands behind, with its schema if it has one.
func behind(tokens []token, i int) token {
	for i > 1 && tokens[i-1].mark('.') {
		i -= 2
	}
	if i == 0 {
		return token{}
	}
	return tokens[i-1]
}
