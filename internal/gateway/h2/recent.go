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
	all  [64]endedStream
}

type endedStream struct {
	id  uint32
	how howEnded
}

// note is for a stream that has just ended.
func (r *endedStreams) note(id uint32, how howEnded) {
	last := &r.all[(r.next+len(r.all)-1)%len(r.all)]
	if last.id != id {
		last = &r.all[r.next]
		r.next = (r.next + 1) % len(r.all)
	}
	last.id, last.how = id, how
}

// ignore is for one that ended before, or never began, and that we reset now.
func (r *endedStreams) ignore(id uint32) {
	if e := r.find(id); e != nil {
		e.how = endedByUs
		return
	}
	r.note(id, endedByUs)
}

func (r *endedStreams) has(id uint32) howEnded {
	if e := r.find(id); e != nil {
		return e.how
	}
	return endedLongAgo
}

func (r *endedStreams) find(id uint32) *endedStream {
	for i := range r.all {
		if r.all[i].id == id {
			return &r.all[i]
		}
	}
	return nil
}
