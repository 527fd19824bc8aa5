package grpc

import (
	"sync"
	"time"
)

// goodbye is how long before connections are cut the calls on them are ended.
const goodbye = time.Second

// expiring is a call, as a drain sees it.
type expiring interface {
	moves() uint64 // pieces so far; 0: the response has not begun
	expire()       // ends it, with a status that says so
}

// underway are the calls of a client's connection.
type underway struct {
	mu    sync.Mutex
	first *placed
}

// placed is the place of a call among others.
type placed struct {
	call       expiring
	moved      uint64 // pieces, when a drain last looked
	prev, next *placed
}

// begin gives a call a place, which it keeps until end.
func (u *underway) begin(c expiring, p *placed) {
	u.mu.Lock()
	defer u.mu.Unlock()
	*p = placed{call: c, next: u.first}
	if p.next != nil {
		p.next.prev = p
	}
	u.first = p
}

func (u *underway) end(p *placed) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		u.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	}
}

// endQuiet ends the streams that have moved nothing since the last look. A call without the beginning of a response is none: its
// server may be at work.
func (u *underway) endQuiet() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p := u.first; p != nil; p = p.next {
		before := p.moved
		if p.moved = p.call.moves(); before > 0 && p.moved == before {
			p.call.expire()
		}
	}
}

func (u *underway) endAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p := u.first; p != nil; p = p.next {
		p.call.expire()
	}
}
