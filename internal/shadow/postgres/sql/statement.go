package sql

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
	Effect  Effect
	Ordered bool // its rows have an order
	Nature  bool // its answer differs by nature: times, random numbers, settings, what a server says of itself
	Chance  bool // which rows it returns is not determined: a limit without an order
	Words   map[string]bool
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
	s := &Statement{Name: nameOf(tokens), Words: map[string]bool{}, Effect: Session}
	for _, t := range tokens {
		if t.kind == word || t.kind == quoted {
			s.Words[t.text] = true
		}
	}
	for _, one := range split(tokens) {
		j := judgement{tokens: one, functions: functions}
		s.Effect = max(s.Effect, j.effect())
		s.Nature = s.Nature || j.nature()
		s.Ordered = s.Ordered || j.ordered()
		s.Chance = s.Chance || j.chance()
	}
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
