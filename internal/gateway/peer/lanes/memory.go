package lanes

import "sync/atomic"

// Memory limits the memory of the histories of all links of a gateway, in bytes.
type Memory interface {
	Take(n int64) bool // takes n bytes if they are free
	Give(n int64)      // gives n bytes back
}

// ledger takes memory, and counts it for metrics.
type ledger struct {
	memory Memory
	held   *atomic.Int64
}

// resize changes the memory that a lane holds to n bytes. If there is too little memory it changes nothing, and returns
// false. The caller must hold the lane's mu.
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

// A room encodes how many bytes a lane may remember: 2 or 3, by its lowest bit, times a power of two; see bytesOf.
const (
	leastRoom = 40 // 1 MiB
	mostRoom  = 50 // 32 MiB
)

// bytesOf returns the bytes that a room stands for; 0 for no lane.
func bytesOf(room byte) int64 {
	if room == 0 {
		return 0
	}
	return int64(2+room&1) << (room/2 - 1)
}

// roomOf returns the smallest room, not below the given one, for so many bytes; mostRoom if there is none.
func roomOf(bytes int64, room byte) byte {
	for room = max(room, leastRoom); room < mostRoom && bytesOf(room) < bytes; room++ {
	}
	return room
}

// roomFor returns the room for a session that begins with a message of n bytes.
func roomFor(message int) byte { return roomOf(6*int64(message), leastRoom) }

// growth is the room, in quarters of the bytes of a session, to offer so that the tables of the session can double.
const growth = 7
