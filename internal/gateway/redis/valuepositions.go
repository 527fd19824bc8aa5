package redis

import "github.com/cinch-layer/cinch/internal/wire/resp"

// Positions of the values in a request. Most commands have them at fixed positions. Commands whose options
// come first have a valueFinder in their row.

// valuePositions gives the positions of a request's values: from first every step-th argument, before end.
type valuePositions struct {
	first, step, end int
	computed         bool // the server computes on the values as sent, so they stay unchanged
}

// holds reports whether argument i is a value.
func (p *valuePositions) holds(i int) bool {
	return i >= p.first && i < p.end && (i-p.first)%p.step == 0
}

// positionStatus says whether the positions are known.
type positionStatus uint8

const (
	located  positionStatus = iota
	refused                 // the server will refuse the request
	needMore                // unknown before more arguments have arrived
	unknownOptions
)

// valueFinder returns the positions of the values in a request of argc arguments. args are those that have arrived.
type valueFinder func(args [][]byte, argc int) (valuePositions, positionStatus)

// option is a keyword of a command and the number of arguments that follow it.
type option struct {
	word      string
	arguments int
}

// optionOf finds an option by its word; n is -1 if there is none.
func optionOf(options []option, word []byte) (o option, n int) {
	for _, o := range options {
		if resp.IsWord(word, o.word) {
			return o, o.arguments
		}
	}
	return option{}, -1
}

// xaddOptions are the options in front of an entry's id.
var xaddOptions = []option{
	{"nomkstream", 0},
	{"maxlen", 1},
	{"minid", 1},
	{"limit", 1},
	{"keepref", 0},
	{"delref", 0},
	{"acked", 0}, // Redis 8.2
	{"idmp", 2},
	{"idmpauto", 1}, // Redis 8.6
}

// findFields finds the values of XADD, behind its options and the id.
func findFields(args [][]byte, argc int) (p valuePositions, is positionStatus) {
	for i := 2; i < len(args); i++ {
		o, n := optionOf(xaddOptions, args[i])
		if n < 0 {
			return p.afterID(args[i], i, argc)
		}
		if (o.word == "maxlen" || o.word == "minid") && i+1 < len(args) && (string(args[i+1]) == "=" || string(args[i+1]) == "~") {
			n++
		}
		p.computed = p.computed || o.word == "idmpauto"
		i += n
	}
	return p, unfinished(args, argc)
}

// afterID returns the positions behind an argument that should be the id of an entry.
func (p valuePositions) afterID(id []byte, at, argc int) (valuePositions, positionStatus) {
	p.first, p.step, p.end = at+2, 2, argc
	switch {
	case len(id) > 0 && (id[0]|0x20 >= 'a' && id[0]|0x20 <= 'z'):
		return p, unknownOptions
	case p.first >= argc || (argc-p.first)%2 == 0:
		return p, refused
	}
	return p, located
}

// unfinished classifies a request whose arguments so far do not tell where its values are.
func unfinished(args [][]byte, argc int) positionStatus {
	if len(args) < argc {
		return needMore
	}
	return refused
}

// storeOptions are options of commands that store values.
var storeOptions = []option{
	{"nx", 0}, {"xx", 0}, {"fnx", 0}, {"fxx", 0}, {"keepttl", 0}, {"ex", 1}, {"px", 1}, {"exat", 1}, {"pxat", 1},
}

// findHashFields finds the values of HSETEX key [options] FIELDS n field value …
func findHashFields(args [][]byte, argc int) (p valuePositions, is positionStatus) {
	for i := 2; i < len(args); i++ {
		if !resp.IsWord(args[i], "fields") {
			_, n := optionOf(storeOptions, args[i])
			if n < 0 {
				return p, unknownOptions
			}
			i += n
			continue
		}
		if i+1 >= len(args) {
			break
		}
		return p.ofPairs(args[i+1], i+2, argc)
	}
	return p, unfinished(args, argc)
}

// findPairs finds the values of MSETEX n key value … [options].
func findPairs(args [][]byte, argc int) (p valuePositions, is positionStatus) {
	if len(args) < 2 {
		return p, unfinished(args, argc)
	}
	if p, is = p.ofPairs(args[1], 2, argc); is != located {
		return p, is
	}
	for i := p.end; i < len(args); i++ {
		_, n := optionOf(storeOptions, args[i])
		if n < 0 {
			return p, unknownOptions
		}
		i += n
	}
	return p, located
}

// ofPairs returns the positions of the values in count pairs that begin with argument at.
func (p valuePositions) ofPairs(count []byte, at, argc int) (valuePositions, positionStatus) {
	n, ok := resp.ParseCount(count)
	if !ok || n == 0 || n > (argc-at)/2 {
		return p, refused
	}
	p.first, p.step, p.end = at+1, 2, at+2*n
	return p, located
}
