package grpc

import (
	"errors"
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

var errFormat = errors.New("the messages can't be told apart")

// gatherer reads the messages of a body into memory. It asks for memory only as their bytes come:
// a peer that announces much and sends nothing holds nothing.
type gatherer struct {
	src   io.Reader
	from  gateway.Peer // that src comes from
	grant *grant
}

// firstGather is how much of a message is asked memory for before any of it is there.
const firstGather = 64 << 10

// some reads a plain message of n bytes. When there is no memory it returns the beginning.
func (g *gatherer) some(n int) ([]byte, error) {
	var in []byte
	for len(in) < n {
		size := min(n, max(firstGather, 2*len(in)))
		if !g.grant.try(2*int64(size) - g.grant.held) {
			return in, nil
		}
		var err error
		if in, err = g.grow(in, size, n); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// all reads a message of n bytes, and then takes what else is needed to open it: cost bytes in
// all.
func (g *gatherer) all(n int, cost int64) ([]byte, error) {
	var in []byte
	for len(in) < n {
		size := min(n, max(firstGather, 2*len(in)))
		if err := g.grant.wait(int64(size)-g.grant.held, cost-g.grant.held); err != nil {
			gateway.PutBuffer(in)
			return nil, err
		}
		var err error
		if in, err = g.grow(in, size, n); err != nil {
			return nil, err
		}
	}
	if err := g.grant.wait(cost-g.grant.held, cost-g.grant.held); err != nil {
		gateway.PutBuffer(in)
		return nil, err
	}
	return in, nil
}

// grow brings what is there of a message of n bytes to size, in a larger buffer. It takes over the
// one in which it lies.
func (g *gatherer) grow(in []byte, size, n int) ([]byte, error) {
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
func (g *gatherer) fill(p []byte) (n int, err error) {
	g.grant.account.Await(g.from)
	defer g.grant.account.Awaited(g.from)
	for n < len(p) && err == nil {
		var more int
		more, err = g.src.Read(p[n:])
		n += more
		g.grant.moved.Add(int64(more))
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// cutOff is the error of a body that ended within a message.
func cutOff(err error, got, n int) error {
	if err == io.EOF {
		return fmt.Errorf("%w: %w after %d of %d bytes", errFormat, wire.ErrTruncated, got, n)
	}
	return err
}
