package memory

import (
	"errors"
	"fmt"
	"io"
)

// ErrCut is wrapped by the error of a body that ended within a message.
var ErrCut = errors.New("cut off")

// Gatherer reads the messages of a body into memory. It takes memory only as their bytes come: a peer that
// announces a long message and sends nothing holds no more than firstGather bytes, or twice as many if memory
// for the result is taken at the same time.
type Gatherer struct {
	Src   io.Reader
	From  Peer // the peer that sends Src
	Grant *Grant
}

// firstGather is the size in bytes of a message's buffer before any of the message has come.
const firstGather = 64 << 10

// ReadAvailable reads a message of n bytes, and takes 2*n bytes from the budget for it. If the budget runs out it
// returns the beginning of the message. The result is a pooled buffer.
func (g *Gatherer) ReadAvailable(n int) ([]byte, error) {
	var in []byte
	for len(in) < n {
		size := min(n, max(firstGather, 2*len(in)))
		if !g.Grant.TryAcquire(2*int64(size) - g.Grant.held) {
			return in, nil
		}
		var err error
		if in, err = g.grow(in, size); err != nil {
			PutBuffer(in)
			return nil, cutOff(err, len(in), n)
		}
	}
	return in, nil
}

// ReadAll reads a message of n bytes, then takes the rest of the cost bytes that decompressing it needs. It waits
// for memory. The result is a pooled buffer.
func (g *Gatherer) ReadAll(n int, cost int64) ([]byte, error) {
	var in []byte
	for len(in) < n {
		size := min(n, max(firstGather, 2*len(in)))
		if err := g.Grant.Acquire(int64(size)-g.Grant.held, cost-g.Grant.held); err != nil {
			PutBuffer(in)
			return nil, err
		}
		var err error
		if in, err = g.grow(in, size); err != nil {
			PutBuffer(in)
			return nil, cutOff(err, len(in), n)
		}
	}
	if err := g.Grant.Acquire(cost-g.Grant.held, cost-g.Grant.held); err != nil {
		PutBuffer(in)
		return nil, err
	}
	return in, nil
}

// grow moves in, the beginning of a message, to a larger buffer and reads on until size bytes are there. It takes
// ownership of in. With an error it returns what it has read.
func (g *Gatherer) grow(in []byte, size int) ([]byte, error) {
	grown := append(GetBuffer(size), in...)
	PutBuffer(in)
	have := len(grown)
	got, err := g.fill(grown[have:size])
	return grown[:have+got], err
}

// fill reads len(p) bytes of a message that holds memory.
func (g *Gatherer) fill(p []byte) (n int, err error) {
	g.Grant.Account.Await(g.From)
	defer g.Grant.Account.Awaited(g.From)
	for n < len(p) && err == nil {
		var more int
		more, err = g.Src.Read(p[n:])
		n += more
		g.Grant.Moved.Add(int64(more))
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// cutOff returns the error for a body that ended within a message.
func cutOff(err error, got, n int) error {
	if err == io.EOF {
		return fmt.Errorf("%w after %d of %d bytes", ErrCut, got, n)
	}
	return err
}

// ReadToEOF reads a body of unknown length, up to most bytes, and takes twice its size from the budget. If the
// body reaches most bytes or the budget runs out, complete is false and in is the beginning. The result is a
// pooled buffer.
func (g *Gatherer) ReadToEOF(most int) (in []byte, complete bool, err error) {
	for {
		size := min(most, max(firstGather, 2*len(in)))
		if len(in) >= most || !g.Grant.TryAcquire(2*int64(size)-g.Grant.held) {
			return in, false, nil
		}
		switch in, err = g.grow(in, size); {
		case err == io.EOF:
			return in, true, nil
		case err != nil:
			PutBuffer(in)
			return nil, false, err
		}
	}
}
