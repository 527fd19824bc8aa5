package grpc

import wire "github.com/cinch-layer/cinch/internal/wire/grpc"

// wholes tells which bytes of a body to hand on now. Messages that fit the buffer go when they
// are whole: nobody can use less, and when the upstream's connection breaks within one, the
// client should find a status and not a piece of a message, which it would take for an error
// of its peer's. Longer ones go piece by piece.
type wholes struct {
	passing int // bytes of a long message that are still to come
}

// ready returns how much of b, which holds what was not handed on before and fits a buffer of
// size bytes, goes now.
func (w *wholes) ready(b []byte, size int) int {
	at := min(w.passing, len(b))
	w.passing -= at
	for len(b)-at >= wire.HeaderLen {
		h, _ := wire.ParseHeader(b[at:]) // a strange flag is the client's to judge
		n := wire.HeaderLen + int(h.Len)
		switch {
		case n <= len(b)-at:
			at += n
		case n > size:
			w.passing = n - (len(b) - at)
			return len(b)
		default:
			return at
		}
	}
	return at
}
