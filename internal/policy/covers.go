package policy

import "strings"

// Covers reports whether pattern a matches everything that pattern b matches; "" matches anything. It may
// return false for patterns so long that the exact answer would take too much time.
func Covers(a, b string) bool {
	if a == "" || strings.Trim(a, "*") == "" || a == b {
		return true
	}
	from, to := steps(a), steps(b)
	// Most patterns have nothing in common. One or two words that b matches show that without a search.
	p := Compile(a)
	if !p.Match(sampleWord(to, "")) || !p.Match(sampleWord(to, "\x00\xff\x00")) {
		return false
	}
	return covers(from, to)
}

// sampleWord returns a word that the pattern matches, with fill for its stars.
func sampleWord(pattern []step, fill string) (word []byte) {
	for _, s := range pattern {
		switch {
		case s.star:
			word = append(word, fill...)
		case s.class == nil:
			word = append(word, s.b)
		default:
			for b := range 256 {
				if s.class.has(byte(b)) {
					word = append(word, byte(b))
					break
				}
			}
		}
	}
	return word
}

// maxCoverStates limits the states that covers visits.
const maxCoverStates = 4096

// covers walks through b byte by byte, with the set of places in a that the same bytes can lead to.
func covers(a, b []step) bool {
	type state struct {
		at     int    // in b
		places string // in a: one byte per place, 1 if the bytes can lead there
	}
	start := make([]byte, len(a)+1)
	markReachable(a, start, 0)
	todo := []state{{0, string(start)}}
	seen := map[state]bool{todo[0]: true}
	visit := func(s state) {
		if !seen[s] {
			seen[s] = true
			todo = append(todo, s)
		}
	}
	for len(todo) > 0 {
		if len(seen) > maxCoverStates {
			return false
		}
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s.at == len(b) {
			if s.places[len(a)] == 0 {
				return false
			}
			continue
		}
		next := s.at + 1
		if b[s.at].star {
			visit(state{next, s.places})
			next = s.at
		}
		for c := range 256 {
			if b[s.at].accepts(byte(c)) {
				visit(state{next, advance(a, s.places, byte(c))})
			}
		}
	}
	return true
}

// accepts reports whether the step matches a byte.
func (s step) accepts(c byte) bool {
	return s.star || s.class == nil && s.b == c || s.class != nil && s.class.has(c)
}

// markReachable marks a place in a pattern, and the places after the stars that follow it, since stars may match
// nothing.
func markReachable(pattern []step, places []byte, at int) {
	places[at] = 1
	for at < len(pattern) && pattern[at].star {
		at++
		places[at] = 1
	}
}

// advance returns the places that a byte leads to.
func advance(pattern []step, from string, c byte) string {
	to := make([]byte, len(from))
	for at, s := range pattern {
		if from[at] == 0 || !s.accepts(c) {
			continue
		}
		if s.star {
			markReachable(pattern, to, at)
		} else {
			markReachable(pattern, to, at+1)
		}
	}
	return string(to)
}
