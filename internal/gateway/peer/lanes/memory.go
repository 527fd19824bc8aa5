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

// A room is what a lane may remember, in bytes: 2 or 3, as its lowest bit says, times a power of two. 0 is none.
const (
	leastRoom = 40 // 1 MiB
	mostRoom  = 50 // 32 MiB
)

// bytesOf returns the bytes of a room.
func bytesOf(room byte) int64 {
	if room == 0 {
		return 0
	}
	return int64(2+room&1) << (room/2 - 1)
}

// roomOf is the least room, but not below the given one, that has so many bytes, or the largest.
func roomOf(bytes int64, room byte) byte {
	for room = max(room, leastRoom); room < mostRoom && bytesOf(room) < bytes; room++ {
	}
	return room
}

// roomFor returns the room for a session that begins with a message of n bytes.
func roomFor(message int) byte { return roomOf(6*int64(message), leastRoom) }

// growth is the room kept for tables to double: this much at a time for a session, over four.
const growth = 7
