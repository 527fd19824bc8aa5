package plan

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec"
)

// Places with many tokens are of two kinds: tenants whose values are alike, which should have one
// rule and one dictionary, and kinds of data, which should have one each, however many
// there are. Their values tell which it is.
const (
	fewTokens  = 16 // words in a place that are kept apart whatever they hold
	mostAlike  = 8  // at least so many tokens become one
	rareNumber = 16 // names by a word with digits, below which it is an identifier
	mostFirsts = 48 // kinds of data that others are compared with
)

// Settle makes one of what is alike among what a collector has found. It is for when all
// names have been offered.
func (c *Collector) Settle(e *codec.Engine) {
	for _, t := range c.trees {
		s := &settler{tree: t, engine: e, foreign: c.o.Foreign, known: make(map[*Group]*traits)}
		s.fields(&t.root, "", false)
		s.settle(&t.root)
	}
}

type settler struct {
	tree    *tree
	engine  *codec.Engine
	foreign bool // values are compared by what a library has compressed into them
	known   map[*Group]*traits
}

func (s *settler) settle(n *node) {
	for _, tok := range n.byWeight(func(string) bool { return true }) {
		s.settle(n.children[tok])
	}
	s.numbered(n)
	s.words(n)
}

// byWeight are the tokens of children, those with most bytes first.
func (n *node) byWeight(of func(tok string) bool) []string {
	var all []string
	weights := make(map[string]float64)
	for tok, c := range n.children {
		if of(tok) {
			all, weights[tok] = append(all, tok), c.weight()
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(a, b)) })
	return all
}

func (n *node) weight() (w float64) {
	if n.leaf != nil {
		w = float64(n.leaf.seen)
		for _, g := range n.leaf.kinds {
			w += g.sizes.cost
		}
	}
	for _, c := range n.children {
		w += c.weight()
	}
	return w
}

// numbered makes identifiers of words with digits that few names have, and of those that hold
// what others hold.
func (s *settler) numbered(n *node) {
	of := func(tok string) bool { return kindOfToken(tok) == numberedWord }
	for _, tok := range n.byWeight(of) {
		if n.children[tok].names < rareNumber {
			n.toVariable(tok, s.tree)
		}
	}
	s.join(n, n.byWeight(of), 2)
}

// words makes one of many that are alike.
func (s *settler) words(n *node) {
	of := func(tok string) bool { return kindOfToken(tok) == word }
	all := n.byWeight(of)
	if len(all) <= fewTokens {
		return
	}
	for _, tok := range all {
		if n.children[tok].names < apartness[word].names {
			n.toVariable(tok, s.tree)
		}
	}
	s.join(n, n.byWeight(of), mostAlike)
}

// join makes one place of the largest number of tokens that are alike, when there are at least
// so many. There can be only one: a pattern has no way to say more.
func (s *settler) join(n *node, tokens []string, least int) {
	var sets [][]string
	for _, tok := range tokens {
		at := slices.IndexFunc(sets, func(set []string) bool { return s.alike(n.children[set[0]], n.children[tok]) })
		switch {
		case at >= 0:
			sets[at] = append(sets[at], tok)
		case len(sets) < mostFirsts:
			sets = append(sets, []string{tok})
		}
	}
	if len(sets) == 0 {
		return
	}
	largest := slices.MaxFunc(sets, func(a, b []string) int { return cmp.Compare(len(a), len(b)) })
	if len(largest) < least {
		return
	}
	for _, tok := range largest {
		n.toVariable(tok, s.tree)
	}
}

// alike reports that what is at two places is the same kind of data: wherever both have values
// of a type, they are, and that is somewhere.
func (s *settler) alike(a, b *node) bool {
	both, same := s.compare(a, b)
	return same && both > 0
}

func (s *settler) compare(a, b *node) (both int, same bool) {
	if a.leaf != nil && b.leaf != nil {
		for kind, g := range a.leaf.kinds {
			other := b.leaf.kinds[kind]
			if other == nil {
				continue
			}
			if !s.sameKind(g, other) {
				return both, false
			}
			both++
		}
	}
	for tok, c := range a.children {
		if other := b.children[tok]; other != nil {
			more, ok := s.compare(c, other)
			if both += more; !ok {
				return both, false
			}
		}
	}
	return both, true
}

// traits are what tells a group's values from others'.
type traits struct {
	mean       float64
	some       [][]byte
	text       []byte // all of these
	compressed float64
}

// What traits are made of, and how far they may be apart.
const (
	printValues = 8
	printBytes  = 2 << 10 // of each
	openedPrint = 1 << 20 // of what a library has compressed, at most
	tried       = 3       // values that are compressed behind the other's
	sizeApart   = 4.0     // times as long
	ratioApart  = 0.2
	noGain      = 0.92 // of what does not compress
	inCommon    = 0.65 // of what a value takes by itself, behind others of its kind
)

func (s *settler) traits(g *Group) *traits {
	if p := s.known[g]; p != nil {
		return p
	}
	p := &traits{mean: g.sizes.mean()}
	step := max(len(g.sample.values)/printValues, 1)
	for i := 0; i < len(g.sample.values) && len(p.some) < printValues; i += step {
		v := g.sample.values[i]
		if s.foreign {
			v = openValue(v, openedPrint).content
		}
		p.some = append(p.some, v[:min(len(v), printBytes)])
	}
	p.text = slices.Concat(p.some...)
	p.compressed = s.compressed(p.text)
	s.known[g] = p
	return p
}

func (s *settler) compressed(text []byte) float64 {
	out, err := s.engine.Compress(nil, text, codec.Setting{Codec: codec.Zstd, Level: 1}, nil)
	if err != nil {
		return float64(len(text))
	}
	return float64(min(len(out), len(text)))
}

// sameKind compares how long values are, how well they compress, and how much less a value takes
// behind those of the other, which is little when they have a structure in common.
func (s *settler) sameKind(a, b *Group) bool {
	x, y := s.traits(a), s.traits(b)
	if len(x.text) == 0 || len(y.text) == 0 {
		return true
	}
	if math.Abs(math.Log(max(x.mean, 1)/max(y.mean, 1))) > math.Log(sizeApart) {
		return false
	}
	xr, yr := x.compressed/float64(len(x.text)), y.compressed/float64(len(y.text))
	if xr > noGain && yr > noGain {
		return true
	}
	return math.Abs(xr-yr) <= ratioApart && s.behind(x, y) <= inCommon && s.behind(y, x) <= inCommon
}

// behind is the share of what values of y take by themselves that they take behind those of x.
func (s *settler) behind(x, y *traits) float64 {
	var alone, more float64
	for _, v := range y.some[:min(len(y.some), tried)] {
		alone += s.compressed(v)
		more += s.compressed(slices.Concat(x.text, v)) - x.compressed
	}
	return more / max(alone, 1)
}

// A field is what stands between two of the same separator: NAME in npm:pkg:NAME:1 and in cache/NAME/1.json. It may have
// other separators in it, as @scope/left-pad has. Where more than fewTokens fields follow a word they are names, not kinds
// of data: a rule for each would miss the names that come tomorrow. They become one variable place, but for those that
// hold much of the bytes and are unlike the rest.

// isFieldSeparator reports whether a token is a separator that identifiers usually don't have inside them.
func isFieldSeparator(tok string) bool { return tok == ":" || tok == "/" }

// field is a way from a place to the separator that ends it.
type field struct {
	parents []*node  // from the place on
	tokens  []string // one for each parent
	end     *node    // behind the separator
	name    string
	weight  float64
}

// fields makes one place of names, here and below. in is the token before n; behindWord says whether a word comes before it.
func (s *settler) fields(n *node, in string, behindWord bool) {
	if behindWord && isFieldSeparator(in) {
		s.joinFields(n, in)
	}
	for tok, c := range n.children {
		s.fields(c, tok, behindWord || kindOfToken(tok) != fixedToken)
	}
}

func (s *settler) joinFields(n *node, separator string) {
	all := fieldsOf(n, separator)
	if len(all) <= fewTokens {
		return
	}
	slices.SortFunc(all, func(a, b field) int { return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.name, b.name)) })
	total := 0.0
	for _, f := range all {
		total += f.weight
	}
	large := slices.IndexFunc(all, func(f field) bool { return f.weight < total/fewTokens })
	if large < 0 {
		return // all of exactly the same weight
	}
	for _, f := range all[large:] {
		f.moveTo(n, separator, s.tree)
	}
	joined := n.children[variable].children[separator]
	for _, f := range all[:large] {
		if _, same := s.compare(joined, f.end); same {
			f.moveTo(n, separator, s.tree)
		}
	}
}

// fieldsOf lists the fields that begin at a place and end with the separator.
func fieldsOf(n *node, separator string) (all []field) {
	var walk func(at *node, parents []*node, tokens []string)
	walk = func(at *node, parents []*node, tokens []string) {
		for tok, c := range at.children {
			if tok != separator {
				walk(c, append(slices.Clone(parents), at), append(slices.Clone(tokens), tok))
			} else if len(tokens) > 0 {
				all = append(all, field{append(slices.Clone(parents), at), append(slices.Clone(tokens), tok), c, strings.Join(tokens, ""), c.weight()})
			}
		}
	}
	walk(n, nil, nil)
	return all
}

// moveTo makes the field part of the variable one at n.
func (f field) moveTo(n *node, separator string, t *tree) {
	if f.name == variable {
		return
	}
	for i := len(f.parents) - 1; i >= 0; i-- {
		p := f.parents[i]
		if i == len(f.parents)-1 {
			delete(p.children, f.tokens[i])
		} else if c := f.parents[i+1]; len(c.children) == 0 && c.leaf == nil {
			delete(p.children, f.tokens[i])
		}
		if i > 0 {
			p.names -= f.end.names
		}
	}
	v := n.children[variable]
	if v == nil {
		v = new(node)
		n.children[variable] = v
	}
	v.names += f.end.names
	if c := v.children[separator]; c != nil {
		c.merge(f.end, t)
		return
	}
	if v.children == nil {
		v.children = make(map[string]*node)
	}
	v.children[separator] = f.end
}
