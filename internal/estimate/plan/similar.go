package plan

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec"
)

// Places with many tokens are of two kinds: tenants with similar values, which should share one rule and one
// dictionary, and kinds of data, which should have one each, however many there are. Their values tell which
// it is.
const (
	fewTokens      = 16 // words in a place that are kept apart whatever their values
	minSimilar     = 8  // minimum number of tokens to merge
	rareNumber     = 16 // a word with digits that fewer names have is an identifier
	maxSimilarSets = 48 // kinds of data to compare others with
)

// MergeSimilar merges groups with similar values. Call it when all names have been offered.
func (c *Collector) MergeSimilar(e *codec.Engine) {
	for _, t := range c.trees {
		s := &merger{tree: t, engine: e, foreign: c.o.Foreign, known: make(map[*Group]*traits)}
		s.mergeFields(&t.root, "", false)
		s.mergeNode(&t.root)
	}
}

type merger struct {
	tree    *tree
	engine  *codec.Engine
	foreign bool // compare values by the content that a library has compressed
	known   map[*Group]*traits
}

func (s *merger) mergeNode(n *node) {
	for _, tok := range n.byWeight(func(string) bool { return true }) {
		s.mergeNode(n.children[tok])
	}
	s.mergeNumbered(n)
	s.mergeWords(n)
}

// byWeight returns the tokens of the children that match, those with most bytes first.
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

// mergeNumbered turns words with digits into identifiers if few names have them, or if their values are like those
// of others.
func (s *merger) mergeNumbered(n *node) {
	of := func(tok string) bool { return kindOfToken(tok) == numberedWord }
	for _, tok := range n.byWeight(of) {
		if n.children[tok].names < rareNumber {
			n.toVariable(tok, s.tree)
		}
	}
	s.mergeLargest(n, n.byWeight(of), 2)
}

// mergeWords merges the largest set of similar words.
func (s *merger) mergeWords(n *node) {
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
	s.mergeLargest(n, n.byWeight(of), minSimilar)
}

// mergeLargest merges the largest set of similar tokens into one variable place, if it has at least least tokens.
// There can be only one: a pattern can't express more.
func (s *merger) mergeLargest(n *node, tokens []string, least int) {
	var sets [][]string
	for _, tok := range tokens {
		at := slices.IndexFunc(sets, func(set []string) bool { return s.isSimilar(n.children[set[0]], n.children[tok]) })
		switch {
		case at >= 0:
			sets[at] = append(sets[at], tok)
		case len(sets) < maxSimilarSets:
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

// isSimilar reports whether two places hold the same kind of data: they have values of a type in common, and all
// such values are similar.
func (s *merger) isSimilar(a, b *node) bool {
	both, same := s.compare(a, b)
	return same && both > 0
}

func (s *merger) compare(a, b *node) (both int, same bool) {
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

// traits describes the values of a group for comparison with others.
type traits struct {
	mean       float64
	values     [][]byte
	text       []byte // concatenation of some
	compressed float64
}

// Parameters of traits, and limits for similarity.
const (
	printValues = 8
	printBytes  = 2 << 10 // per value
	openedPrint = 1 << 20 // limit for content that a library has compressed
	triedValues = 3       // values to compress after the other group's
	sizeApart   = 4.0     // factor between mean lengths
	ratioApart  = 0.2
	noGain      = 0.92 // of data that does not compress
	inCommon    = 0.65 // size of a value after others of its kind, relative to its size alone
)

func (s *merger) traits(g *Group) *traits {
	if p := s.known[g]; p != nil {
		return p
	}
	p := &traits{mean: g.sizes.mean()}
	step := max(len(g.sample.values)/printValues, 1)
	for i := 0; i < len(g.sample.values) && len(p.values) < printValues; i += step {
		v := g.sample.values[i]
		if s.foreign {
			v = openValue(v, openedPrint).content
		}
		p.values = append(p.values, v[:min(len(v), printBytes)])
	}
	p.text = slices.Concat(p.values...)
	p.compressed = s.compressed(p.text)
	s.known[g] = p
	return p
}

func (s *merger) compressed(text []byte) float64 {
	out, err := s.engine.Compress(nil, text, codec.Setting{Codec: codec.Zstd, Level: 1}, nil)
	if err != nil {
		return float64(len(text))
	}
	return float64(min(len(out), len(text)))
}

// sameKind compares how long values are, how well they compress, and how much smaller a value gets after
// those of the other group, which takes little space if they have a structure in common.
func (s *merger) sameKind(a, b *Group) bool {
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
	return math.Abs(xr-yr) <= ratioApart && s.relativeSize(x, y) <= inCommon && s.relativeSize(y, x) <= inCommon
}

// relativeSize returns the compressed size of values of y after those of x, relative to their size alone.
func (s *merger) relativeSize(x, y *traits) float64 {
	var alone, more float64
	for _, v := range y.values[:min(len(y.values), triedValues)] {
		alone += s.compressed(v)
		more += s.compressed(slices.Concat(x.text, v)) - x.compressed
	}
	return more / max(alone, 1)
}

// A field is the text between two of the same separator: NAME in npm:pkg:NAME:1 and in cache/NAME/1.json. It
// may contain other separators, as @scope/left-pad does. If more than fewTokens fields follow a word they are
// names, not kinds of data: a rule for each would miss future names. They become one variable place. Fields that
// hold much of the bytes and are unlike the rest stay apart.

// isFieldSeparator reports whether a token is a separator that identifiers usually don't contain.
func isFieldSeparator(tok string) bool { return tok == ":" || tok == "/" }

// field is a path from a place to the separator that ends it.
type field struct {
	parents []*node  // from the place on
	tokens  []string // one for each parent
	end     *node    // after the separator
	name    string
	weight  float64
}

// mergeFields merges fields that are names, at this place and below. in is the token before n; behindWord tells
// whether a word precedes it.
func (s *merger) mergeFields(n *node, in string, behindWord bool) {
	if behindWord && isFieldSeparator(in) {
		s.mergeFieldsAt(n, in)
	}
	for tok, c := range n.children {
		s.mergeFields(c, tok, behindWord || kindOfToken(tok) != fixedToken)
	}
}

func (s *merger) mergeFieldsAt(n *node, separator string) {
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
		return // all have exactly the same weight
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

// fieldsOf returns the fields that begin at a place and end with the separator.
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

// moveTo merges the field into the variable one at n.
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
