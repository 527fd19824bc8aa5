package plan

import (
	"cmp"
	"slices"
)

// tokenKind is what a place keeps apart: separators and * always, words and words with digits as
// far as there are few of them, or names come by them often.
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

// How many tokens of a kind a place has at most, and how often names must come by one that is
// kept apart when there are more: so many times, and one time in so many. No more than half of the
// places can be kept by that, so that there is room for those that come later.
var apartness = [tokenKinds]struct {
	most         int
	names, oneIn int64
	again        int64 // likewise of one that became * and comes again
}{
	word:         {512, 8, 256, 64},
	numberedWord: {128, 8, 64, 64},
}

// node is a place in the tree of names. A place where names end has a leaf.
type node struct {
	children map[string]*node
	names    int64            // that came by
	full     [tokenKinds]bool // tokens that have no place yet are variable here
	late     *counts          // of those
	open     bool             // names that go on end here too
	leaf     *leaf
}

// leaf is what is known of the names of one pattern.
type leaf struct {
	seen  int64             // names offered
	read  float64           // names read, by the inverse of their chance
	kinds map[string]*Group // by type of value
}

// tree is the tree of one space's names.
type tree struct {
	root   node
	leaves int
}

// find returns the leaf of a name.
func (t *tree) find(name []byte) *leaf { return t.pass(name, 0) }

// pass is find for a name that comes so many times.
func (t *tree) pass(name []byte, times int64) *leaf {
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
	if n.full[kind] && !n.returns(tok, kind) {
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
		n.keepOften(kind, t)
		if c = n.children[tok]; c == nil {
			c = n.children[variable]
		}
	}
	return c
}

// returns counts a token that was taken for an identifier, and reports that it comes so often
// that it is none.
func (n *node) returns(tok string, kind tokenKind) bool {
	if n.late == nil {
		n.late = &counts{}
	}
	a := apartness[kind]
	return n.late.add(tok) >= max(a.again, n.names/a.oneIn)
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

// keepOften keeps those children of a kind apart that names come by often, and makes one
// variable place of the others.
func (n *node) keepOften(kind tokenKind, t *tree) {
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

// toVariable makes a child part of the variable one.
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
			n.keepOften(kind, t)
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

// counts holds how often words came, of the most frequent ones, in bounded memory (Misra and
// Gries, "Finding repeated elements", 1982): what it has is never too much, and too little by no
// more than one in maxCounted of all.
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
