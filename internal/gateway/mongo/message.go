package mongo

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// message is one message as received. Its bytes are valid until the next one is read.
type message struct {
	received   []byte
	header     wire.Header       // of the decompressed message
	compressor wire.CompressorID // of the message as received, or plain
	account    *memory.Account   // holds the memory of the bytes; nil: they don't count in a budget

	waited         time.Duration // for memory, while the message came in
	restBytes      int           // number of bytes that came after the first ones; 0: not measured
	restTime       time.Duration // time in which restBytes came, without waited
	decompressTime time.Duration // time that decompressing took
}

// reader reads messages from one connection. It belongs to one pump.
type reader struct {
	gateway.Inbound
	allowed *atomic.Uint32 // the compressorSet that the peer may use; nil: any
	pace    *gateway.Pace  // nil: not measured
}

// next reads one message, and takes memory for it as it comes. The previous message must not be used any
// more. An error between two messages is io.EOF or os.ErrDeadlineExceeded; both leave the reader unchanged.
func (r *reader) next() (m message, err error) {
	r.Release()
	if err = r.Fill(wire.HeaderLen); err != nil {
		return m, err
	}
	m.compressor = plain
	if m.header, err = wire.ParseHeader(r.Unread()); err != nil {
		return m, err
	}
	length, cost := m.header.Length, 2*m.header.Length // bytes of the message on the wire; memory in bytes to handle it
	if m.header.OpCode == wire.OpCompressed {
		if err = r.Fill(wire.CompressedHeaderLen); err != nil {
			return m, err
		}
		c, err := wire.ParseCompressed(m.header, r.Unread())
		if err != nil {
			return m, err
		}
		if _, ok := algorithmOf(c.Compressor); !ok || r.allowed != nil && !compressorSet(r.allowed.Load()).has(c.Compressor) {
			return m, fmt.Errorf("%w: %d", errCompressor, c.Compressor)
		}
		m.header, m.compressor, cost = c.Header, c.Compressor, length+2*c.Length
	}
	if err = r.Expect(max(length, m.header.Length), cost); err != nil {
		return m, err
	}
	if err = r.ReadWhole(length); err != nil {
		return m, err
	}
	m.received, m.waited = r.Take(length), r.Waited
	m.restBytes, m.restTime = r.pace.Rest()
	m.restTime = max(m.restTime-m.waited, 0) // the bytes may have come while it waited
	if r.IsBudgeted() {
		m.account = r.Account
	}
	return m, nil
}
