package h2

import "github.com/cinch-layer/cinch/internal/gateway"

// buffer is a queue of bytes. It holds no memory while it is empty.
type buffer struct {
	b  []byte // pooled, or nil
	at int    // before which everything was read
}

func (b *buffer) len() int { return len(b.b) - b.at }

func (b *buffer) write(p []byte) {
	if b.at > 0 && len(b.b)+len(p) > cap(b.b) {
		b.b = b.b[:copy(b.b, b.b[b.at:])]
		b.at = 0
	}
	b.b = appendPooled(b.b, p)
}

func (b *buffer) read(p []byte) int {
	n := copy(p, b.b[b.at:])
	if b.at += n; b.at == len(b.b) {
		b.free()
	}
	return n
}

func (b *buffer) free() {
	gateway.PutBuffer(b.b)
	b.b, b.at = nil, 0
}

// appendPooled is append for a pooled buffer.
func appendPooled(b, p []byte) []byte {
	return append(room(b, len(p)), p...)
}

// room makes room for n bytes behind a pooled buffer.
func room(b []byte, n int) []byte {
	need := len(b) + n
	if need <= cap(b) {
		return b
	}
	grown := append(gateway.GetBuffer(max(need, 2*cap(b))), b...)
	gateway.PutBuffer(b)
	return grown
}
