package plan

import (
	"strings"
)

// Names (keys, paths) are split into tokens at separators, and the tokens form a tree:
//
//	user:1042:cart   ->  "user" ":" * ":" "cart"
//	logs/2024-01.gz  ->  "logs" "/" * "." "gz"
//
// A token that begins with a digit is variable from the start, as is anything like a UUID or a date. Any other
// token has a place of its own at first. A place with too many different tokens keeps the frequent ones apart, and
// merges the rest, with everything below them, into one * (patterntree.go). So the tree learns which parts of a
// name are identifiers, and stays small whatever the names are. When all names have been offered, tokens of a place
// whose values are similar are merged, too (similar.go).
const (
	maxTokens = 12   // per name; the rest is one *
	maxToken  = 40   // bytes; a longer token is variable
	maxLeaves = 1024 // patterns in a tree
)

const variable = "*"

// cut splits a name into tokens, including the separators between them.
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

// tidy merges variable tokens at the end with only separators between them, as in UUIDs and dates: *-*-*
// becomes one *. Patterns match the same either way.
func tidy(tokens []string) []string {
	out := tokens[:0]
	for _, t := range tokens {
		out = append(out, t)
		if n := len(out); n >= 3 && hasDigits(out[n-1]) && hasDigits(out[n-3]) && isJoint(out[n-2]) {
			out = out[:n-2]
			out[n-3] = variable
		}
	}
	return out
}

// isJoint reports whether a token is a separator that identifiers contain.
func isJoint(t string) bool { return t == "-" || t == "_" || t == "." }

func isSeparator(c byte) bool { return strings.IndexByte(":/.-_|#{}[],;=@ ", c) >= 0 }

func token(t []byte) string {
	if len(t) > maxToken || t[0] >= '0' && t[0] <= '9' {
		return variable
	}
	numbers := 0
	for _, c := range t {
		if c < ' ' || c > '~' || c == '*' {
			return variable
		}
		if c >= '0' && c <= '9' {
			numbers++
		}
	}
	if numbers > maxNumbers {
		return variable
	}
	return string(t)
}

// maxNumbers is the maximum number of digits in a word: tenant12, sha256, v2.
const maxNumbers = 4

// hasDigits reports whether a token is variable, or a word with digits such as tenant12.
func hasDigits(t string) bool { return t == variable || strings.ContainsAny(t, "0123456789") }

// shrink merges everything below one place into one pattern: the place with the fewest names among the lowest
// places with more than one pattern at or below them.
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

// flatten merges everything below a place into its own leaf.
func (n *node) flatten(t *tree) {
	for _, c := range n.children {
		c.flatten(t)
		n.takeLeaf(c, t)
	}
	n.children, n.full, n.identifiers = nil, [tokenKinds]bool{}, nil
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

// escapeGlob returns a glob that matches text literally.
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

func literal(pattern string) int { return len(strings.ReplaceAll(pattern, variable, "")) }
