package held

import (
	"errors"
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// ErrCut is wrapped by the error of a body that ended within a message.
var ErrCut = errors.New("cut off")

// Gatherer reads the messages of a body into memory. It takes memory only as their bytes come: a peer that
// announces a long message and sends nothing holds no more than firstGather bytes.
type Gatherer struct {
	Src   io.Reader
	From  gateway.Peer // the peer that sends Src
	Grant *Grant
}

// firstGather is the memory in bytes that is taken for a message before any of it has come.
const firstGather = 64 << 10

// Some reads a message of n bytes, and takes 2*n bytes from the budget for it. If the budget runs out it
// returns the beginning of the message. The result is a pooled buffer.
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

// All reads a message of n bytes, then takes the rest of the cost bytes that decompressing it needs. It waits
// for memory. The result is a pooled buffer.
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

// grow moves in, the beginning of a message of n bytes, to a larger buffer and reads on until size bytes are
// there. It takes ownership of in.
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
