package mux

import "github.com/cinch-layer/cinch/internal/gateway/memory"

const (
	firstUnread = 512      // bytes of the first buffer
	nextUnread  = 64 << 10 // most bytes of a later one
)

// unread holds replies, in order, in pooled buffers.
type unread struct {
	bufs [][]byte
	at   int // bytes of the first buffer that were read
	size int // bytes that were not read
}

// add adds a copy of b.
func (u *unread) add(b []byte) {
	u.size += len(b)
	room := firstUnread
	if n := len(u.bufs); n > 0 {
		last := &u.bufs[n-1]
		k := copy((*last)[len(*last):cap(*last)], b)
		*last, b = (*last)[:len(*last)+k], b[k:]
		room = min(2*cap(*last), nextUnread)
	}
	if len(b) > 0 {
		u.bufs = append(u.bufs, append(memory.GetBuffer(max(room, len(b))), b...))
	}
}

// take removes the first buffer and returns it, if it has room for n bytes and none of it was read; otherwise it
// returns nil. The caller owns the buffer.
func (u *unread) take(n int) []byte {
	if len(u.bufs) == 0 || u.at > 0 || cap(u.bufs[0]) < n {
		return nil
	}
	b := u.bufs[0]
	u.drop()
	u.size -= len(b)
	return b
}

// read moves bytes to p and returns their number.
func (u *unread) read(p []byte) (n int) {
	for n < len(p) && len(u.bufs) > 0 {
		k := copy(p[n:], u.bufs[0][u.at:])
		n += k
		if u.at += k; u.at == len(u.bufs[0]) {
			memory.PutBuffer(u.bufs[0])
			u.drop()
		}
	}
	u.size -= n
	return n
}

// drop forgets the first buffer.
func (u *unread) drop() {
	n := copy(u.bufs, u.bufs[1:])
	u.bufs[n] = nil
	u.bufs, u.at = u.bufs[:n], 0
}

// clear gives all buffers back.
func (u *unread) clear() {
	for _, b := range u.bufs {
		memory.PutBuffer(b)
	}
	*u = unread{}
}
