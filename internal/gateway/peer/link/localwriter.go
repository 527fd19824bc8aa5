package link

import (
	"net"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// gatherBytes is the maximum number of bytes gathered for a local connection from frames that have arrived.
const gatherBytes = 64 << 10

// Gathered gathers received bytes for the local connection, so that frames that arrive together are written together.
type Gathered struct {
	of *Link
	to net.Conn
	b  []byte

	memory heldMemory // of b, beyond freePiece
}

// Gather returns an empty Gathered that writes to a connection. Only the goroutine that calls Next may use it.
func (l *Link) Gather(to net.Conn) *Gathered {
	return &Gathered{of: l, to: to, memory: heldMemory{account: l.owner.Received, awaits: l.owner.Near}}
}

// LocalError is an error of the local connection.
type LocalError struct{ Err error }

func (e LocalError) Error() string { return e.Err.Error() }
func (e LocalError) Unwrap() error { return e.Err }

// Add appends the decompressed bytes of a frame. If they don't fit it writes the earlier ones first.
func (g *Gathered) Add(f wire.Frame) (err error) {
	if err := g.room(f.RawLen); err != nil {
		return err
	}
	g.b, err = g.of.in.open(g.b, f)
	return err
}

// room makes sure that n more bytes fit.
func (g *Gathered) room(n int) error {
	need := len(g.b) + n
	switch {
	case g.b != nil && need <= cap(g.b):
		return nil
	case len(g.b) > 0 && (need > gatherBytes || !g.grow()):
		if err := g.Flush(); err != nil {
			return err
		}
	}
	switch {
	case g.b != nil:
		return nil
	case n <= freePiece:
		g.b = memory.GetBuffer(freePiece)
		return nil
	}
	if err := g.memory.take(g.of.waiting, gatherBytes, gatherBytes, nothing); err != nil {
		return err
	}
	g.b = memory.GetBuffer(gatherBytes)
	return nil
}

// grow enlarges the buffer to gatherBytes, if there is memory.
func (g *Gathered) grow() bool {
	if !g.memory.try(gatherBytes) {
		return false
	}
	grown := append(memory.GetBuffer(gatherBytes), g.b...)
	memory.PutBuffer(g.b)
	g.b = grown
	return true
}

func nothing() error { return nil }

// Flush writes the gathered bytes, and frees the buffer.
func (g *Gathered) Flush() error {
	if g.b == nil {
		return nil
	}
	var err error
	if len(g.b) > 0 {
		g.memory.wait()
		_, err = g.to.Write(g.b)
		g.memory.waited()
	}
	g.Free()
	if err != nil {
		return LocalError{Err: err}
	}
	return nil
}

// Free drops the gathered bytes, and frees the buffer.
func (g *Gathered) Free() {
	memory.PutBuffer(g.b)
	g.b = nil
	g.memory.keep(0)
}
