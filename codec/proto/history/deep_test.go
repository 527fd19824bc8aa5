package history

import "testing"

// nest returns a message of nested levels, from level on. Each has a number, counted up from v, and the first extra
// levels have theirs twice. One in each levels is in a run of two. last is appended to the innermost level.
func nest(level, levels, each, extra int, v uint64, last []byte) []byte {
	b := varintField(nil, 2, v)
	if level <= extra {
		b = varintField(b, 3, v)
	}
	if level == levels {
		return append(b, last...)
	}
	if level%each == 0 {
		b = bytesField(b, 1, varintField(nil, 2, v))
	}
	return bytesField(b, 1, nest(level+1, levels, each, extra, v+1, last))
}

// nested returns a session that has had more and more levels, so that there are records of all of them. v is the last
// number.
func nested(t *testing.T, levels, each int) (s *session, v uint64) {
	s = &session{}
	for n := 8; n <= levels; n += 4 {
		for range 60 {
			v += 7
			s.send(t, nest(1, n, each, 0, v, nil))
		}
	}
	return s, v
}

// Records have several levels, so they exist for nodes that are too deep if the levels above are given in
// full.
func TestDeepRecords(t *testing.T) {
	for each := 1; each <= 9; each++ {
		s, v := nested(t, 60, each)
		for i := range 200 {
			v += 7
			s.send(t, nest(1, 60, each, i%30, v, nil))
		}
	}
}

// Messages are restored whose lengths were long the last time, at all levels, and are short now.
func TestDeepLengths(t *testing.T) {
	var long []byte
	for i := range 200 {
		long = bytesField(long, 1, varintField(nil, 2, uint64(i)))
	}
	for len(long) < 1<<22 {
		long = append(long, long...)
	}
	for each := 6; each <= 8; each++ {
		s, v := nested(t, 100, each)
		for _, last := range [][]byte{long, nil, long, nil} {
			v += 7
			s.send(t, nest(1, 100, each, 0, v, last))
		}
	}
}
