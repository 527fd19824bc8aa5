package sql

// Place says where in a statement a word stands. One word may stand in several places.
type Place uint8

// Places.
const (
	Named      Place = 1 << iota // anywhere else: in FROM, as a keyword
	Listed                       // in a list of returned or assigned values
	Ordering                     // in an ORDER BY
	Choosing                     // where it decides which rows exist: WHERE, JOIN, GROUP BY and anything nested in these
	Qualifying                   // before a dot
)

// clauses maps a keyword to the place that begins after it, up to the next keyword or the closing
// parenthesis.
var clauses = map[string]Place{
	"select": Listed, "returning": Listed, "set": Listed, "into": Listed,
	"from": Named, "join": Named, "values": Named, "update": Named, "delete": Named,
	"order": Ordering,
	"where": Choosing, "on": Choosing, "using": Choosing, "group": Choosing, "having": Choosing, "window": Choosing,
	"limit": Choosing, "offset": Choosing, "fetch": Choosing,
}

// places records where the words of a statement stand. Everything inside Choosing is Choosing too.
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
		if place, begins := clauses[t.text]; begins && t.kind == word && !inherits(around) {
			*now = place
		}
	}
}

// inherits reports whether the place around the current parentheses is Choosing.
func inherits(around []Place) bool {
	return len(around) > 1 && around[len(around)-2] == Choosing
}

// alias records the alias of a table or of a subquery in parentheses.
func (s *Statement) alias(tokens []token, i int, place Place) {
	if place != Named || i == 0 || isKeyword(tokens[i].text) && tokens[i].kind == word {
		return
	}
	of := tokens[i-1]
	if of.is("as") && i > 1 {
		of = tokens[i-2]
	}
	switch {
	case of.mark(')'):
		s.Aliases[tokens[i].text] = ""
	case of.kind == quoted, of.kind == word && !isKeyword(of.text):
		s.Aliases[tokens[i].text] = of.text
	}
}

// tableKeywords lists the words that stand before the name of a table.
var tableKeywords = map[string]bool{"from": true, "join": true, "update": true, "into": true, "only": true, "table": true, "copy": true, "using": true}

// table records a word that may name a table: one after a word in tableKeywords, or in the list of a FROM,
// that is no function call.
func (s *Statement) table(tokens []token, i int, place Place) {
	if tokens[i].kind == word && isKeyword(tokens[i].text) || i+1 < len(tokens) && tokens[i+1].mark('(') && !tokenBefore(tokens, i).is("into") {
		return
	}
	of := tokenBefore(tokens, i)
	if of.kind == word && tableKeywords[of.text] || of.mark(',') && place == Named {
		s.Tables = append(s.Tables, tokens[i].text)
	}
}

// tokenBefore returns the token before a name and its schema, if it has one.
func tokenBefore(tokens []token, i int) token {
	for i > 1 && tokens[i-1].mark('.') {
		i -= 2
	}
	if i == 0 {
		return token{}
	}
	return tokens[i-1]
}
