package grpc

import (
	"io"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// copyBytes is what one direction of a call moves at a time.
const copyBytes = 16 << 10

// readFirst reads into buf behind have bytes. Where there is no buffer it waits for bytes
// before it takes one: package h2's bodies do that when they are asked for none. With other readers
// it only takes it earlier.
func readFirst(from io.Reader, buf *[]byte, have int) (int, error) {
	if *buf == nil {
		if _, err := from.Read(nil); err != nil {
			return 0, err
		}
		*buf = gateway.GetBuffer(copyBytes)[:copyBytes]
	}
	return from.Read((*buf)[have:])
}

// isComplete reports whether all of a body is here already: no read will wait.
func isComplete(body io.Reader) bool {
	b, ok := body.(interface{ Complete() bool })
	return ok && b.Complete()
}

// fill reads until p is full. Unlike io.ReadFull it leaves errors as they are: the transport
// says io.ErrUnexpectedEOF when a connection breaks.
func fill(src io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var more int
		more, err = src.Read(p[n:])
		n += more
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

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

// counter hands on a body of messages, and counts them.
type counter struct {
	src     io.Reader
	header  []byte // of the next message, as much as there is
	passing int
	begun   int
	ended   atomic.Int64 // messages, once the body has ended; 0: it has not
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	for b := p[:n]; len(b) > 0; {
		if skip := min(c.passing, len(b)); skip > 0 {
			c.passing -= skip
			b = b[skip:]
			continue
		}
		c.header = append(c.header, b[0])
		b = b[1:]
		if len(c.header) == wire.HeaderLen {
			h, _ := wire.ParseHeader(c.header)
			c.header, c.passing = c.header[:0], int(h.Len)
			c.begun++
		}
	}
	if err == io.EOF {
		c.ended.Store(int64(c.begun))
	}
	return n, err
}

// one reports whether the body has ended after one message.
func (c *counter) one() bool { return c.ended.Load() == 1 }
