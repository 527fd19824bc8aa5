package policy

// Overlap reports whether a key can match both patterns; "" matches any.
func Overlap(a, b string) bool { return overlap(steps(a), steps(b), map[[2]int]bool{}) }

// step is a token of a pattern, or a star.
type step struct {
	token
	star bool
}

func (s step) meets(o step) bool {
	switch {
	case s.class == nil && o.class == nil:
		return s.b == o.b
	case s.class == nil:
		return o.class.has(s.b)
	case o.class == nil:
		return s.class.has(o.b)
	}
	for i := range s.class {
		if s.class[i]&o.class[i] != 0 {
			return true
		}
	}
	return false
}

func steps(glob string) (all []step) {
	if glob == "" {
		glob = "*"
	}
	for len(glob) > 0 {
		if glob[0] == '*' {
			all, glob = append(all, step{star: true}), glob[1:]
			continue
		}
		var s step
		s.token, glob = nextToken(glob)
		all = append(all, s)
	}
	return all
}

// overlap records in tried the pairs that it has visited, so that its time is limited by the product of both
// lengths.
func overlap(a, b []step, tried map[[2]int]bool) bool {
	at := [2]int{len(a), len(b)}
	if tried[at] {
		return false
	}
	tried[at] = true
	switch {
	case len(a) == 0 && len(b) == 0:
		return true
	case len(a) > 0 && a[0].star:
		return overlap(a[1:], b, tried) || len(b) > 0 && overlap(a, b[1:], tried)
	case len(b) > 0 && b[0].star:
		return overlap(a, b[1:], tried) || len(a) > 0 && overlap(a[1:], b, tried)
	case len(a) == 0 || len(b) == 0:
		return false
	}
	return a[0].meets(b[0]) && overlap(a[1:], b[1:], tried)
}
