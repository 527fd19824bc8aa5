package plan

import "strings"

// Names (keys, paths) are cut into tokens at separators, and a tree is made of the tokens:
//
//	user:1042:cart   ->  "user" ":" * ":" "cart"
//	logs/2024-01.gz  ->  "logs" "/" * "-" * "." "gz"
//
// A token with a digit in it is variable from the start. A place that turns out to take
// more than maxChildren different tokens is variable too: all of them become one *, and
// what was below them is merged. So the tree finds out by itself which parts of a name are
// identifiers, and stays small whatever the names are.
const (
	maxChildren = 16  // different tokens in a place
	maxTokens   = 12  // of a name; the rest is one *
	maxToken    = 40  // bytes of a token; a longer one is variable
	maxLeaves   = 192 // patterns in a tree
)

const variable = "*"

// cut splits a name into tokens and the separators between them, which are tokens too.
func cut(name []byte) []string {
	var tokens []string
	for len(name) > 0 && len(tokens) < maxTokens {
		end := 0
		for end < len(name) && !isSeparator(name[end]) {
			end++
		}
		if end == 0 {
			tokens, name = append(tokens, string(name[:1])), name[1:]
			continue
		}
		tokens, name = append(tokens, token(name[:end])), name[end:]
	}
	if len(name) > 0 {
		tokens = append(tokens, variable)
	}
	return tidy(tokens)
}

// tidy joins variable tokens with nothing but separators between them at the end, as in
// UUIDs and dates: *-*-* is one *. Patterns match the same either way.
func tidy(tokens []string) []string {
	out := tokens[:0]
	for _, t := range tokens {
		out = append(out, t)
		if n := len(out); n >= 3 && out[n-1] == variable && out[n-3] == variable && isJoint(out[n-2]) {
			out = out[:n-2]
		}
	}
	return out
}

// isJoint is a separator that identifiers have inside them.
func isJoint(t string) bool { return t == "-" || t == "_" || t == "." }

func isSeparator(c byte) bool { return strings.IndexByte(":/.-_|#{}[],;=@ ", c) >= 0 }

func token(t []byte) string {
	if len(t) > maxToken {
		return variable
	}
	for _, c := range t {
		if c >= '0' && c <= '9' || c < ' ' || c > '~' || c == '*' {
			return variable
		}
	}
	return string(t)
}

// node is a place in the tree of names. A place where names end has a leaf.
type node struct {
	children  map[string]*node
	collapsed bool // every token that is no separator is variable here
	open      bool // names that go on end here too
	leaf      *leaf
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
func (t *tree) find(name []byte) *leaf {
	n := &t.root
	for _, tok := range cut(name) {
		if n.open {
			break
		}
		n = n.child(tok, t)
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
	separator := isLoneSeparator(tok)
	if n.collapsed && !separator {
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
	if !separator && n.tokens() > maxChildren {
		n.collapse(t)
		c = n.children[variable]
	}
	return c
}

func isLoneSeparator(tok string) bool { return len(tok) == 1 && isSeparator(tok[0]) }

// tokens counts the children that are no separators.
func (n *node) tokens() int {
	count := 0
	for tok := range n.children {
		if !isLoneSeparator(tok) {
			count++
		}
	}
	return count
}

// collapse makes one variable place of all children but separators.
func (n *node) collapse(t *tree) {
	all := new(node)
	for tok, c := range n.children {
		if !isLoneSeparator(tok) {
			all.merge(c, t)
			delete(n.children, tok)
		}
	}
	n.children[variable], n.collapsed = all, true
}

// merge takes over everything at and below o.
func (n *node) merge(o *node, t *tree) {
	if n.open || o.open {
		n.flatten(t)
		o.flatten(t)
	}
	n.open = n.open || o.open
	n.takeLeaf(o, t)
	for tok, c := range o.children {
		if n.children == nil {
			n.children = make(map[string]*node)
		}
		if n.collapsed && !isLoneSeparator(tok) {
			tok = variable
		}
		if mine := n.children[tok]; mine != nil {
			mine.merge(c, t)
		} else {
			n.children[tok] = c
		}
	}
	if n.tokens() > maxChildren || o.collapsed && !n.collapsed {
		n.collapse(t)
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

// shrink makes one pattern of all that is below the place with the fewest names among the
// lowest places that have more than one pattern at or below them.
func (t *tree) shrink() {
	var best *node
	fewest := int64(-1)
	var walk func(n *node) (leaves int, seen int64)
	walk = func(n *node) (leaves int, seen int64) {
		if n.leaf != nil {
			leaves, seen = 1, n.leaf.seen
		}
		nested := false
		for _, c := range n.children {
			l, s := walk(c)
			leaves, seen, nested = leaves+l, seen+s, nested || l > 1
		}
		if leaves > 1 && !nested && (fewest < 0 || seen < fewest) {
			best, fewest = n, seen
		}
		return leaves, seen
	}
	walk(&t.root)
	best.flatten(t)
	best.open = true
}

// flatten moves what is below a place into its own leaf.
func (n *node) flatten(t *tree) {
	for _, c := range n.children {
		c.flatten(t)
		n.takeLeaf(c, t)
	}
	n.children, n.collapsed = nil, false
}

// patterns calls f with each pattern, as a glob, and its leaf.
func (t *tree) patterns(f func(glob string, l *leaf)) { t.root.patterns("", f) }

func (n *node) patterns(prefix string, f func(glob string, l *leaf)) {
	if n.leaf != nil {
		glob := prefix
		if n.open && !strings.HasSuffix(glob, variable) {
			glob += variable
		}
		f(glob, n.leaf)
	}
	for tok, c := range n.children {
		if tok != variable {
			tok = escapeGlob(tok)
		}
		c.patterns(prefix+tok, f)
	}
}

// escapeGlob writes text so that a glob matches it as it is.
func escapeGlob(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if strings.IndexByte(`*?[]\`, text[i]) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
