package pack

import "sync"

// order knows from where to go on while several pages are in work: everything before the
// position is done. Pages end in any order, the position moves over those at the front.
//
//	position  [ page: next 12, done ] [ page: next 3, in work ] [ page: next 9, done ]
//	                                ^ moves to here
type order struct {
	mu       sync.Mutex
	position string
	ended    bool // the last page is behind the position
	pages    []*ordered
	moved    func(position string, ended bool) // called with mu held
}

type ordered struct {
	next string // cursor after the page; "": it is the last
	done bool
}

func (o *order) begin(next string) *ordered {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := &ordered{next: next}
	o.pages = append(o.pages, p)
	return p
}

func (o *order) finish(p *ordered) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.done = true
	for len(o.pages) > 0 && o.pages[0].done {
		o.position, o.ended = o.pages[0].next, o.pages[0].next == ""
		o.pages = o.pages[1:]
	}
	o.moved(o.position, o.ended)
}
