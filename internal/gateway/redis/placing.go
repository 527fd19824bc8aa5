package redis

import "github.com/cinch-layer/cinch/internal/wire/resp"

// Where the values of a request are. Most commands have them at fixed places; for those whose options
// come first, their row names a function that reads the options.

// places are the values of a request: from first on every step-th argument, before end.
type places struct {
	first, step, end int
	computed         bool // the server computes on them as they come, so that they stay as they are
}

// holds reports that argument i is a value.
func (p *places) holds(i int) bool {
	return i >= p.first && i < p.end && (i-p.first)%p.step == 0
}

// placing says whether the places of a request are known.
type placing uint8

const (
	placed  placing = iota
	refused         // the server will not carry the request out
	cutOff          // not before more of its arguments have come
	strange         // it has options that are not known here
)

// finder finds the places in the arguments of a request that have come; it will have argc.
type finder func(args [][]byte, argc int) (places, placing)

// places finds the values of a request of which some arguments have come.
func (a *argValues) places(args [][]byte, argc int) (places, placing) {
	if a.find != nil {
		return a.find(args, argc)
	}
	p := places{first: a.first, step: a.step, end: argc}
	if a.single {
		p.step, p.end = 1, a.first+1
	}
	if p.first >= argc || a.pairs && (argc-p.first)%2 == 0 {
		return p, refused
	}
	return p, placed
}

// option is a word that a command knows, and how many arguments belong to it.
type option struct {
	word      string
	arguments int
}

// optionOf finds an option by its word; n is -1 where it is not known.
func optionOf(options []option, word []byte) (o option, n int) {
	for _, o := range options {
		if resp.IsWord(word, o.word) {
			return o, o.arguments
		}
	}
	return option{}, -1
}

// xaddOptions are those in front of an entry's id.
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

// findFields finds the values of XADD's fields, behind its options and the id.
func findFields(args [][]byte, argc int) (p places, is placing) {
	for i := 2; i < len(args); i++ {
		o, n := optionOf(xaddOptions, args[i])
		if n < 0 {
			return p.behind(args[i], i, argc)
		}
		if (o.word == "maxlen" || o.word == "minid") && i+1 < len(args) && (string(args[i+1]) == "=" || string(args[i+1]) == "~") {
			n++
		}
		p.computed = p.computed || o.word == "idmpauto"
		i += n
	}
	return p, unfinished(args, argc)
}

// behind takes what should be the id of an entry, with fields and values behind it.
func (p places) behind(id []byte, at, argc int) (places, placing) {
	p.first, p.step, p.end = at+2, 2, argc
	switch {
	case len(id) > 0 && (id[0]|0x20 >= 'a' && id[0]|0x20 <= 'z'):
		return p, strange
	case p.first >= argc || (argc-p.first)%2 == 0:
		return p, refused
	}
	return p, placed
}

// unfinished is how a request is whose arguments so far do not tell where its values are.
func unfinished(args [][]byte, argc int) placing {
	if len(args) < argc {
		return cutOff
	}
	return refused
}

// storeOptions are those of commands that store values for a time.
var storeOptions = []option{
	{"nx", 0}, {"xx", 0}, {"fnx", 0}, {"fxx", 0}, {"keepttl", 0}, {"ex", 1}, {"px", 1}, {"exat", 1}, {"pxat", 1},
}

// findHashFields finds the values of HSETEX key [options] FIELDS n field value …
func findHashFields(args [][]byte, argc int) (p places, is placing) {
	for i := 2; i < len(args); i++ {
		if !resp.IsWord(args[i], "fields") {
			_, n := optionOf(storeOptions, args[i])
			if n < 0 {
				return p, strange
			}
			i += n
			continue
		}
		if i+1 >= len(args) {
			break
		}
		return p.counted(args[i+1], i+2, argc)
	}
	return p, unfinished(args, argc)
}

// findPairs finds the values of MSETEX n key value … [options].
func findPairs(args [][]byte, argc int) (p places, is placing) {
	if len(args) < 2 {
		return p, unfinished(args, argc)
	}
	if p, is = p.counted(args[1], 2, argc); is != placed {
		return p, is
	}
	for i := p.end; i < len(args); i++ {
		_, n := optionOf(storeOptions, args[i])
		if n < 0 {
			return p, strange
		}
		i += n
	}
	return p, placed
}

// counted are the values of so many pairs from argument at on.
func (p places) counted(count []byte, at, argc int) (places, placing) {
	n, ok := resp.ParseCount(count)
	if !ok || n == 0 || n > (argc-at)/2 {
		return p, refused
	}
	p.first, p.step, p.end = at+1, 2, at+2*n
	return p, placed
}

// argValues finds the arguments that are values: from first, every step-th. For some their place
// depends on options (placing.go).
type argValues struct {
	first, step int
	kind        valueKind
	find        finder
	pairs       bool // (argc - first + 1) must be even, or the server refuses the request
	single      bool // only the one at first
}

type valueKind uint8

const (
	noValues valueKind = iota
	stringValue
	stringValues // MSET: the key is the argument before each value
	hashValues
	streamValues
)
