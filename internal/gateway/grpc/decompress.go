package grpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

var (
	errTooLarge = errors.New("message decompresses to more than max_open")
	errCorrupt  = errors.New("a message can't be decompressed")
	errFormat   = errors.New("invalid gRPC message framing")
)

// decompressor decompresses messages for all calls of a gateway.
type decompressor struct {
	codecs  *grpccodec.Set
	stats   *gateway.Stats
	maxOpen int // limit of a decompressed message in bytes
	ratio   ratio
	ahead   chan struct{} // see memory.Grant
}

func newDecompressor(most int, codecs *grpccodec.Set, stats *gateway.Stats) *decompressor {
	return &decompressor{maxOpen: most, codecs: codecs, stats: stats, ahead: make(chan struct{}, 1)}
}

// limit returns the expected maximum size of a message of n bytes when decompressed.
func (o *decompressor) limit(n int) int { return min(o.maxOpen, o.ratio.limit(n)) }

// open decompresses a message. The result has room for a header at its beginning. It may have limit bytes, or up to
// o.maxOpen if the grant can be exceeded.
func (o *decompressor) open(in []byte, limit int, p *plan, g *memory.Grant) ([]byte, error) {
	start := time.Now()
	dst := memory.GetBuffer(wire.HeaderLen + min(limit, 4*len(in)))[:wire.HeaderLen]
	out, err := o.openPlain(dst, in, p.from, limit, g)
	if err != nil {
		return nil, o.explain(g.Ctx, err)
	}
	o.ratio.observe(len(in), len(out))
	id, _ := codec.ParseID(p.from)
	o.stats.Opened(id, len(in), len(out)-wire.HeaderLen, time.Since(start))
	return out, nil
}

// explain counts the error of a message and returns the error to report. An error that means only the end of the call
// is not counted.
func (o *decompressor) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ctx.Err()):
		return err
	case errors.Is(err, lanes.ErrOrder):
		o.stats.Error("out_of_order")
		return err
	case errors.Is(err, grpccodec.ErrTooLarge), errors.Is(err, lanes.ErrTooLarge):
		o.stats.Error("too_large")
		return fmt.Errorf("%w (%d bytes)", errTooLarge, o.maxOpen)
	}
	o.stats.Error("corrupt")
	return fmt.Errorf("%w: %w", errCorrupt, err)
}

// openPlain appends the decompressed message to dst. See open for limit.
func (o *decompressor) openPlain(dst, in []byte, encoding string, limit int, g *memory.Grant) ([]byte, error) {
	out, err := o.codecs.AppendDecompress(dst, in, encoding, limit)
	if !errors.Is(err, grpccodec.ErrTooLarge) || limit >= o.maxOpen {
		return out, err
	}
	if err := o.acquireMax(limit, g); err != nil {
		return nil, err
	}
	return o.codecs.AppendDecompress(dst, in, encoding, o.maxOpen)
}

// openLaned decompresses a message of a call in lanes, within the grant. The result has room for a header at
// its beginning.
func (o *decompressor) openLaned(in []byte, p *plan, g *memory.Grant) ([]byte, error) {
	start := time.Now()
	m, err := lanes.Parse(in)
	if err != nil {
		return nil, o.explain(g.Ctx, err)
	}
	var out []byte
	if m.Alone {
		out, err = o.openAlone(m, p, g)
	} else {
		out, err = o.openInLane(m, p, g)
	}
	if err != nil {
		return nil, o.explain(g.Ctx, err)
	}
	o.stats.Opened(codec.Proto, len(in), len(out)-wire.HeaderLen, time.Since(start))
	return out, nil
}

// openAlone decompresses a message that was sent without a lane.
func (o *decompressor) openAlone(m lanes.Laned, p *plan, g *memory.Grant) ([]byte, error) {
	limit := o.limit(len(m.Body))
	if err := g.Acquire(2*int64(limit), 2*int64(limit)); err != nil {
		return nil, err
	}
	dst := memory.GetBuffer(wire.HeaderLen + min(limit, 4*len(m.Body)))[:wire.HeaderLen]
	out, err := o.openPlain(dst, m.Body, codec.Proto.String(), limit, g)
	if err != nil {
		return nil, err
	}
	o.ratio.observe(len(m.Body), len(out))
	p.in.OpenedAlone(m, len(out)-wire.HeaderLen)
	return out, nil
}

// openInLane decompresses a message that was sent in a lane.
func (o *decompressor) openInLane(m lanes.Laned, p *plan, g *memory.Grant) ([]byte, error) {
	raw := m.RawLen()
	if raw > o.maxOpen {
		return nil, lanes.ErrTooLarge
	}
	if err := g.Acquire(2*int64(raw), 2*int64(raw)); err != nil {
		return nil, err
	}
	return p.in.Open(memory.GetBuffer(wire.HeaderLen + raw)[:wire.HeaderLen], m, raw)
}

// acquireMax asks the grant for decompressing up to o.maxOpen bytes instead of limit.
func (o *decompressor) acquireMax(limit int, g *memory.Grant) error {
	return g.AcquireBeyond(2 * int64(o.maxOpen-limit))
}

// ratio estimates the ratio of a message's decompressed size to its compressed size, in units of 1/ratioScale; 0: no
// estimate yet. It follows large ratios at once and small ones slowly. The estimate determines how much memory is
// requested before a message has arrived.
type ratio struct{ estimate atomic.Int64 }

const (
	initialRatio = 16
	minRatio     = 4
	ratioScale   = 64
)

func (r *ratio) limit(n int) int {
	guess := r.estimate.Load()
	if guess == 0 {
		guess = initialRatio * ratioScale
	}
	return int(guess)*n/ratioScale + 512
}

// observe updates the estimate with a message of n bytes that decompressed to raw bytes. Concurrent updates may
// get lost, which does no harm.
func (r *ratio) observe(n, raw int) {
	fits := int64(raw) * ratioScale / int64(max(n, 1)) * 3 / 2
	guess := r.estimate.Load()
	if guess == 0 {
		guess = initialRatio * ratioScale
	}
	r.estimate.Store(max(fits, guess-guess/ratioScale, minRatio*ratioScale))
}
