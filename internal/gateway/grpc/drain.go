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
	calls map[expiring]uint64 // with how many pieces they had moved when a drain last looked
}

func (u *underway) begin(c expiring) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls == nil {
		u.calls = map[expiring]uint64{}
	}
	u.calls[c] = 0
}

func (u *underway) end(c expiring) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.calls, c)
}

// endQuiet ends the streams that have moved nothing since the last look. A call without the beginning of a response is none: its
// server may be at work.
func (u *underway) endQuiet() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c, before := range u.calls {
		moved := c.moves()
		if u.calls[c] = moved; moved > 0 && moved == before {
			c.expire()
		}
	}
}

func (u *underway) endAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.calls {
		c.expire()
	}
}
