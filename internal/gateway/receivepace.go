package gateway

import (
	"net"
	"time"
)

// Pace measures how fast the bytes of a message come in over the network. It measures below TLS: a TLS connection
// returns records of up to 16 KiB in one piece, however slowly they came. A Pace belongs to the goroutine that
// reads the connection.
type Pace struct {
	first, last time.Time
	head, bytes int // bytes of the first read, and of all reads
}

// PaceOf returns the Pace of a connection, which measures from the first call of PaceOf on. It returns nil for a
// connection that is not a Conn of this package.
func PaceOf(c net.Conn) *Pace {
	wrapped, ok := belowTLS(c).(*Conn)
	if !ok {
		return nil
	}
	if wrapped.pace == nil {
		wrapped.pace = &Pace{}
	}
	return wrapped.pace
}

func (p *Pace) record(n int) {
	now := time.Now()
	if p.bytes == 0 {
		p.first, p.head = now, n
	}
	p.last, p.bytes = now, p.bytes+n
}

// Rest returns how many bytes of a message came after the first read, and the time that they took. It resets
// the Pace for the next message.
func (p *Pace) Rest() (bytes int, took time.Duration) {
	if p == nil {
		return 0, 0
	}
	bytes, took = p.bytes-p.head, p.last.Sub(p.first)
	*p = Pace{}
	return bytes, took
}
