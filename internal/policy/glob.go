package policy

import "bytes"

// Pattern is a compiled glob with the semantics of Redis (stringmatchlen in its util.c), on bytes, not runes:
//
//	"*"       any bytes, also none
//	"?"       any one byte
//	"[abc]"   one of these; "[a-c]" a range, in either direction; "[^abc]" none of these
//	"\x"      the byte x
//
// A class that is not closed extends to the end of the pattern, as in Redis. There are two differences: "*"
// matches the empty key too, which KEYS treats specially; and a range that ends above 0x7f covers unsigned
// bytes, where Redis depends on its C compiler.
//
// Redis backtracks. Here a pattern is split at its stars into pieces. The first is anchored at the front, the
// last at the back, and each one between at the leftmost place where it fits, which is never worse than a
// later one. So a match takes time linear in the key, even if an attacker chose the key.
//
//	"a*b?c*d"  ->  prefix "a", inner "b?c", suffix "d"
type Pattern struct {
	any    bool // it is "*"
	star   bool // false: the whole pattern is prefix
	prefix piece
	inner  []piece
	suffix piece
}

// piece is a run without stars. Literal runs, by far the most common ones, are compared at once.
type piece struct {
	size    int // bytes that it matches
	literal []byte
	tokens  []token // nil when the run is literal
}

type token struct {
	class *class // nil: exactly b
	b     byte
}

// class is a set of bytes.
type class [4]uint64

func (c *class) add(b byte)      { c[b>>6] |= 1 << (b & 63) }
func (c *class) has(b byte) bool { return c[b>>6]&(1<<(b&63)) != 0 }

func (c *class) invert() {
	for i := range c {
		c[i] = ^c[i]
	}
}

var anyByte = class{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

// Compile returns a compiled pattern. It never fails: as in Redis, every string is a pattern.
func Compile(glob string) Pattern {
	var pieces []piece
	var run []token
	for len(glob) > 0 {
		if glob[0] == '*' {
			pieces = append(pieces, newPiece(run))
			run, glob = nil, glob[1:]
			continue
		}
		var t token
		t, glob = nextToken(glob)
		run = append(run, t)
	}
	return newPattern(append(pieces, newPiece(run)))
}

func compileOrAny(glob string) Pattern {
	if glob == "" {
		glob = "*"
	}
	return Compile(glob)
}

func newPattern(pieces []piece) Pattern {
	last := len(pieces) - 1
	p := Pattern{prefix: pieces[0], star: last > 0}
	if !p.star {
		return p
	}
	p.suffix = pieces[last]
	p.any = p.prefix.size+p.suffix.size == 0
	for _, inner := range pieces[1:last] {
		if inner.size > 0 {
			p.inner, p.any = append(p.inner, inner), false
		}
	}
	return p
}

// nextToken splits the first token from a non-empty glob.
func nextToken(glob string) (token, string) {
	switch {
	case glob[0] == '?':
		return token{class: &anyByte}, glob[1:]
	case glob[0] == '[':
		c, rest, _ := parseClass(glob[1:])
		return token{class: c}, rest
	case glob[0] == '\\' && len(glob) > 1:
		return token{b: glob[1]}, glob[2:]
	}
	return token{b: glob[0]}, glob[1:]
}

// parseClass parses what follows a '['. It mirrors Redis's loop case by case, in its order: an escape, the
// closing bracket, a range, a single byte.
func parseClass(s string) (c *class, rest string, closed bool) {
	c = new(class)
	not := s != "" && s[0] == '^'
	if not {
		s = s[1:]
	}
	for s != "" && !closed {
		switch {
		case s[0] == '\\' && len(s) >= 2:
			c.add(s[1])
			s = s[2:]
		case s[0] == ']':
			closed = true
			s = s[1:]
		case len(s) >= 3 && s[1] == '-':
			from, to := min(s[0], s[2]), max(s[0], s[2])
			for b := int(from); b <= int(to); b++ {
				c.add(byte(b))
			}
			s = s[3:]
		default:
			c.add(s[0])
			s = s[1:]
		}
	}
	if not {
		c.invert()
	}
	return c, s, closed
}

func newPiece(run []token) piece {
	literal := make([]byte, 0, len(run))
	for _, t := range run {
		if t.class != nil {
			return piece{size: len(run), tokens: run}
		}
		literal = append(literal, t.b)
	}
	return piece{size: len(literal), literal: literal}
}

// matches reports whether the piece matches s, which has exactly p.size bytes.
func (p *piece) matches(s []byte) bool {
	if p.tokens == nil {
		return bytes.Equal(p.literal, s)
	}
	for i := range p.tokens {
		t := &p.tokens[i]
		if t.class == nil && t.b != s[i] || t.class != nil && !t.class.has(s[i]) {
			return false
		}
	}
	return true
}

// index returns the leftmost offset at which the piece fits, or -1.
func (p *piece) index(s []byte) int {
	if p.tokens == nil {
		return bytes.Index(s, p.literal)
	}
	for i := 0; i+len(p.tokens) <= len(s); i++ {
		if p.matches(s[i : i+len(p.tokens)]) {
			return i
		}
	}
	return -1
}

// Match reports whether the pattern covers all of key. It does not allocate.
func (p *Pattern) Match(key []byte) bool {
	if p.any {
		return true
	}
	head, tail := p.prefix.size, p.suffix.size
	if !p.star {
		return len(key) == head && p.prefix.matches(key)
	}
	if len(key) < head+tail || !p.prefix.matches(key[:head]) || !p.suffix.matches(key[len(key)-tail:]) {
		return false
	}
	key = key[head : len(key)-tail]
	for i := range p.inner {
		at := p.inner[i].index(key)
		if at < 0 {
			return false
		}
		key = key[at+p.inner[i].size:]
	}
	return true
}

// UnclosedClass returns the offset of a '[' in glob that no ']' closes, or -1. Such a pattern works, see
// Pattern, but its author probably meant another.
func UnclosedClass(glob string) int {
	for rest := glob; rest != ""; {
		if rest[0] != '[' {
			_, rest = nextToken(rest)
			continue
		}
		_, after, closed := parseClass(rest[1:])
		if !closed {
			return len(glob) - len(rest)
		}
		rest = after
	}
	return -1
}
