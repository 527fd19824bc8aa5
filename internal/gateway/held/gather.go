package held

import (
	"errors"
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// ErrCut says that a body ended within a message.
var ErrCut = errors.New("cut off")

// Gatherer reads the messages of a body into memory. It asks for memory only as their bytes come:
// a peer that announces much and sends nothing holds nothing.
type Gatherer struct {
	Src   io.Reader
	From  gateway.Peer // that Src comes from
	Grant *Grant
}

// firstGather is how much of a message is asked memory for before any of it is there.
const firstGather = 64 << 10

// Some reads a message of n bytes, of whom twice as many are taken of the budget. When there is no memory it returns the
// beginning. What it returns is a pooled buffer.
func (g *Gatherer) Some(n int) ([]byte, error) {
	var in []byte
	for len(in) < n {
		size := min(n, max(firstGather, 2*len(in)))
		if !g.Grant.Try(2*int64(size) - g.Grant.held) {
			return in, nil
		}
		var err error
		if in, err = g.grow(in, size, n); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// All reads a message of n bytes, and then takes what else is needed to open it: cost bytes in
// all.
func (g *Gatherer) All(n int, cost int64) ([]byte, error) {
	var in []byte
	for len(in) < n {
		size := min(n, max(firstGather, 2*len(in)))
		if err := g.Grant.Wait(int64(size)-g.Grant.held, cost-g.Grant.held); err != nil {
			gateway.PutBuffer(in)
			return nil, err
		}
		var err error
		if in, err = g.grow(in, size, n); err != nil {
			return nil, err
		}
	}
	if err := g.Grant.Wait(cost-g.Grant.held, cost-g.Grant.held); err != nil {
		gateway.PutBuffer(in)
		return nil, err
	}
	return in, nil
}

// grow brings what is there of a message of n bytes to size, in a larger buffer. It takes over the
// one in which it lies.
func (g *Gatherer) grow(in []byte, size, n int) ([]byte, error) {
	grown := append(gateway.GetBuffer(size), in...)
	gateway.PutBuffer(in)
	have := len(grown)
	got, err := g.fill(grown[have:size])
	if err != nil {
		gateway.PutBuffer(grown)
		return nil, cutOff(err, have+got, n)
	}
	return grown[:size], nil
}

// fill reads a piece of a message that holds memory.
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

// cutOff is the error of a body that ended within a message.
func cutOff(err error, got, n int) error {
	if err == io.EOF {
		return fmt.Errorf("%w after %d of %d bytes", ErrCut, got, n)
	}
	return err
}
