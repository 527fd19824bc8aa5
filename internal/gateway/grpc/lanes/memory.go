package lanes

import "sync/atomic"

// Memory bounds what all links of a gateway remember, in bytes.
type Memory interface {
	Take(n int64) bool // takes n bytes if they are free
	Give(n int64)      // gives n of them back
}

// ledger takes memory, and counts it.
type ledger struct {
	memory Memory
	held   *atomic.Int64
}

// resize brings what one lane holds, which is its caller's to guard, to n bytes. It reports false if these are not to be had.
func (l *ledger) resize(held *int64, n int64) bool {
	switch more := n - *held; {
	case more > 0 && !l.memory.Take(more):
		return false
	case more < 0:
		l.memory.Give(-more)
	}
	l.held.Add(n - *held)
	*held = n
	return true
}

// Bounds of what a lane may remember, as log2 of bytes.
const (
	leastRoom = 20
	mostRoom  = 25
)

// roomFor is log2 of what a session may have to remember after a message of so many bytes.
func roomFor(message int) (room byte) {
	for room = leastRoom; room < mostRoom && 1<<room < 6*int64(message); room++ {
	}
	return room
}

// bytesOf is what a lane with that room may remember; 0 for none.
func bytesOf(room byte) int64 {
	if room == 0 {
		return 0
	}
	return 1 << room
}
