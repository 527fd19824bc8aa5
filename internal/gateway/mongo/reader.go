package mongo

import (
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// message is one message as it came. Its bytes live until the next one is read.
type message struct {
	bytes  []byte
	header wire.Header       // of the message without compression
	came   wire.CompressorID // plain, or how it is compressed
	held   bool              // its bytes are taken from the budget
	paired wire.Paired       // of a frame between gateways

	opening time.Duration // what that took, where it was compressed
}

// reader cuts one connection into messages. It belongs to one pump.
type reader struct {
	gateway.Inbound
	pair *hearer // nil, or not on: no frames between gateways come

	// How the last message came in: so many bytes in so much time after its first ones.
	pace *gateway.Pace // nil: nobody asks
	rest int
	took time.Duration
}

// next reads one message. The one before must not be used any more. An error at the end of
// a message is io.EOF or os.ErrDeadlineExceeded; both leave the reader as it was.
func (r *reader) next() (m message, err error) {
	r.Release()
	r.pace.Restart()
	if err = r.Fill(wire.PairedLengthLen); err != nil {
		return m, err
	}
	if r.pair != nil && r.pair.on.Load() && wire.IsPaired(r.Unread()) {
		return r.nextPaired()
	}
	if err = r.Fill(wire.HeaderLen); err != nil {
		return m, err
	}
	m.came = plain
	if m.header, err = wire.ParseHeader(r.Unread()); err != nil {
		return m, err
	}
	length, cost := m.header.Length, 2*m.header.Length
	if m.header.OpCode == wire.OpCompressed {
		if err = r.Fill(wire.CompressedHeaderLen); err != nil {
			return m, err
		}
		c, err := wire.ParseCompressed(m.header, r.Unread())
		if err != nil {
			return m, err
		}
		if _, ok := algorithmOf(c.Compressor); !ok {
			return m, fmt.Errorf("%w %d", errCompressor, c.Compressor)
		}
		m.header, m.came, cost = c.Header, c.Compressor, length+2*c.Length
	}
	return m, r.whole(&m, length, cost)
}

// nextPaired reads a frame between gateways, whose length is there.
func (r *reader) nextPaired() (m message, err error) {
	length, err := wire.PairedLength(r.Unread())
	if err != nil {
		return m, err
	}
	if err = r.Fill(min(length, wire.MaxPairedHead)); err != nil {
		return m, err
	}
	if m.paired, err = wire.ParsePaired(r.Unread(), r.pair.numbers); err != nil {
		return m, err
	}
	m.header, m.came = m.paired.Header, wire.BetweenGateways
	return m, r.whole(&m, length, length+2*m.header.Length)
}

// whole reads the rest of a message, for which memory is taken as it comes.
func (r *reader) whole(m *message, length, cost int) error {
	if err := r.Expect(length, cost); err != nil {
		return err
	}
	if err := r.Whole(length); err != nil {
		return err
	}
	r.rest, r.took = r.pace.Rest()
	r.took = max(r.took-r.Waited, 0) // for memory, while the bytes may have been there
	m.bytes, m.held = r.Take(length), r.Held()
	return nil
}
