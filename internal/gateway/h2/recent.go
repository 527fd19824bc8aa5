package h2

// howEnded is how a stream came to its end.
type howEnded uint8

const (
	endedLongAgo howEnded = iota // or never begun
	endedRegularly
	endedByUs // by a reset: what still comes on it is ignored (RFC 9113, section 5.1)
)

// endedStreams are the streams that have ended last.
type endedStreams struct {
	next int
	all  [64]struct {
		id  uint32
		how howEnded
	}
}

func (r *endedStreams) note(id uint32, how howEnded) {
	last := &r.all[(r.next+len(r.all)-1)%len(r.all)]
	if last.id != id {
		last = &r.all[r.next]
		r.next = (r.next + 1) % len(r.all)
	}
	last.id, last.how = id, how
}

func (r *endedStreams) has(id uint32) howEnded {
	for _, e := range r.all {
		if e.id == id {
			return e.how
		}
	}
	return endedLongAgo
}
