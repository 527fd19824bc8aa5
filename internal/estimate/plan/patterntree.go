package plan

import (
	"cmp"
	"slices"
)

// tokenKind determines what a place keeps apart: separators and * always, words and words with digits only if
// there are few of them, or if they are frequent.
type tokenKind int

const (
	fixedToken tokenKind = iota
	word
	numberedWord
	tokenKinds
)

func kindOfToken(tok string) tokenKind {
	switch {
	case tok == variable || isLoneSeparator(tok):
		return fixedToken
	case hasDigits(tok):
		return numberedWord
	}
	return word
}

// Limits by kind of token: a place keeps up to most different tokens. If there are more, it keeps only frequent ones
// apart: those of at least so many names, and of at least one name in oneIn. Since oneIn is half of most, at most half
// of the tokens stay, which leaves room for later ones.
var apartness = [tokenKinds]struct {
	most         int
	names, oneIn int64
	again        int64 // as names, for a token that became * and returns
}{
	word:         {512, 8, 256, 64},
	numberedWord: {128, 8, 64, 64},
}

// node is a place in the tree of names. A place at which names end has a leaf.
type node struct {
	children    map[string]*node
	names       int64            // names that passed through it
	full        [tokenKinds]bool // new tokens of this kind are variable here
	identifiers *counts          // of tokens that are variable here
	open        bool             // names that continue end here too
	leaf        *leaf
}

// leaf describes the names of one pattern.
type leaf struct {
	seen  int64             // names offered
	read  float64           // names read, weighted by the inverse of their chance
	kinds map[string]*Group // by type of value
}

// tree is the tree of one space's names.
type tree struct {
	root   node
	leaves int
}

// find returns the leaf of a name.
func (t *tree) find(name []byte) *leaf { return t.findTimes(name, 0) }

// findTimes is find for a name that occurs times times.
func (t *tree) findTimes(name []byte, times int64) *leaf {
	n := &t.root
	n.names += times
	for _, tok := range cut(name) {
		if n.open {
			break
		}
		n = n.child(tok, t)
		n.names += times
	}
	if n.leaf == nil {
		n.leaf = &leaf{kinds: make(map[string]*Group)}
		t.leaves++
		if t.leaves > maxLeaves {
			t.shrink()
			return t.find(name)
		}
	}
	return n.leaf
}

func (n *node) child(tok string, t *tree) *node {
	if c := n.children[tok]; c != nil {
		return c
	}
	kind := kindOfToken(tok)
	if n.full[kind] && !n.countIdentifier(tok, kind) {
		tok = variable
	}
	c := n.children[tok]
	if c == nil {
		if n.children == nil {
			n.children = make(map[string]*node)
		}
		c = new(node)
		n.children[tok] = c
	}
	if kind != fixedToken && tok != variable && n.tokens(kind) > apartness[kind].most {
		n.keepFrequent(kind, t)
		if c = n.children[tok]; c == nil {
			c = n.children[variable]
		}
	}
	return c
}

// countIdentifier counts a token that was taken for an identifier, and reports whether it is too frequent to be one.
func (n *node) countIdentifier(tok string, kind tokenKind) bool {
	if n.identifiers == nil {
		n.identifiers = &counts{}
	}
	a := apartness[kind]
	return n.identifiers.add(tok) >= max(a.again, n.names/a.oneIn)
}

func isLoneSeparator(tok string) bool { return len(tok) == 1 && isSeparator(tok[0]) }

// tokens counts the children of a kind.
func (n *node) tokens(kind tokenKind) int {
	count := 0
	for tok := range n.children {
		if kindOfToken(tok) == kind {
			count++
		}
	}
	return count
}

// keepFrequent keeps the frequent children of a kind apart, and merges the others into one variable place.
func (n *node) keepFrequent(kind tokenKind, t *tree) {
	var some []string
	for tok := range n.children {
		if kindOfToken(tok) == kind {
			some = append(some, tok)
		}
	}
	slices.SortFunc(some, func(a, b string) int {
		return cmp.Or(cmp.Compare(n.children[b].names, n.children[a].names), cmp.Compare(a, b))
	})
	a := apartness[kind]
	least := max(a.names, n.names/a.oneIn)
	for i, tok := range some {
		if i >= a.most || n.children[tok].names < least {
			n.toVariable(tok, t)
		}
	}
	n.full[kind] = true
}

// toVariable merges a child into the variable one.
func (n *node) toVariable(tok string, t *tree) {
	c := n.children[tok]
	delete(n.children, tok)
	if v := n.children[variable]; v != nil {
		v.merge(c, t)
	} else {
		n.children[variable] = c
	}
}

// merge takes over everything at and below o.
func (n *node) merge(o *node, t *tree) {
	if n.open || o.open {
		n.flatten(t)
		o.flatten(t)
	}
	n.open = n.open || o.open
	n.names += o.names
	n.takeLeaf(o, t)
	for kind := range n.full {
		n.full[kind] = n.full[kind] || o.full[kind]
	}
	for tok, c := range o.children {
		if n.children == nil {
			n.children = make(map[string]*node)
		}
		if mine := n.children[tok]; mine != nil {
			mine.merge(c, t)
		} else {
			n.children[tok] = c
		}
	}
	for _, kind := range []tokenKind{word, numberedWord} {
		if n.tokens(kind) > apartness[kind].most {
			n.keepFrequent(kind, t)
		}
	}
}

func (n *node) takeLeaf(o *node, t *tree) {
	switch {
	case o.leaf == nil:
	case n.leaf == nil:
		n.leaf = o.leaf
	default:
		n.leaf.merge(o.leaf)
		t.leaves--
	}
}

func (l *leaf) merge(o *leaf) {
	l.seen += o.seen
	l.read += o.read
	for kind, g := range o.kinds {
		if mine := l.kinds[kind]; mine != nil {
			mine.merge(g)
		} else {
			l.kinds[kind] = g
		}
	}
}

// counts counts the most frequent words in bounded memory (Misra and Gries, "Finding repeated elements",
// 1982): a count is never too high, and too low by at most one in maxCounted of all.
type counts struct{ of map[string]int64 }

const maxCounted = 2048

func (c *counts) add(word string) int64 {
	if c.of == nil {
		c.of = make(map[string]int64)
	}
	if _, ok := c.of[word]; !ok && len(c.of) >= maxCounted {
		for w, n := range c.of {
			if n == 1 {
				delete(c.of, w)
			} else {
				c.of[w] = n - 1
			}
		}
		return 0
	}
	c.of[word]++
	return c.of[word]
}
