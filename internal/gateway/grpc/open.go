package grpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/pair"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

var (
	errTooLarge = errors.New("a compressed message is larger than max_open")
	errCorrupt  = errors.New("a message can't be decompressed")
	errFormat   = errors.New("invalid gRPC message framing")
)

// missingError says that a message names a dictionary that its sender has not sent.
type missingError struct {
	number uint32
	clean  bool // nothing of the call has been forwarded
}

func (e *missingError) Error() string {
	return fmt.Sprintf("dictionary %08x is not here", e.number)
}

func (e *missingError) header() string {
	if e.clean {
		return wire.FormatNumber(e.number) + againWord
	}
	return wire.FormatNumber(e.number)
}

// opener decompresses messages for all calls of a gateway.
type opener struct {
	codecs *grpccodec.Set
	engine *codec.Engine // for messages with a dictionary
	stats  *gateway.Stats
	totals *pair.Totals
	most   int // limit of a decompressed message in bytes
	ratio  ratio
	ahead  chan struct{} // see held.Grant
}

func newOpener(most int, codecs *grpccodec.Set, engine *codec.Engine, stats *gateway.Stats, totals *pair.Totals) *opener {
	return &opener{most: most, codecs: codecs, engine: engine, stats: stats, totals: totals, ahead: make(chan struct{}, 1)}
}

// limit returns the expected maximum size of a message of n bytes when decompressed.
func (o *opener) limit(n int, paired bool) int {
	limit := o.ratio.limit(n)
	if paired {
		limit = max(limit, autodict.MaxMessageSample)
	}
	return min(o.most, limit)
}

// open decompresses a message. The result has room for a header at its beginning. It may have limit bytes, or
// up to o.most if the grant can be exceeded.
func (o *opener) open(in []byte, limit int, p *plan, g *memory.Grant) ([]byte, error) {
	start := time.Now()
	dst := memory.GetBuffer(wire.HeaderLen + min(limit, 4*len(in)))[:wire.HeaderLen]
	out, err := o.decompress(dst, in, limit, p, g)
	if err != nil {
		return nil, o.explain(g.Ctx, err)
	}
	o.ratio.saw(len(in), len(out))
	id, err := codec.ParseID(p.from)
	if err != nil {
		id = codec.Zstd // from a gateway, with a dictionary
	}
	o.stats.Opened(id, len(in), len(out)-wire.HeaderLen, time.Since(start))
	return out, nil
}

// explain counts the error of a message and returns the error to report. The end of the call and a missing
// dictionary are not counted.
func (o *opener) explain(ctx context.Context, err error) error {
	var missing *missingError
	switch {
	case errors.As(err, &missing), errors.Is(err, ctx.Err()):
		return err
	case errors.Is(err, lanes.ErrOrder):
		o.stats.Error("out_of_order")
		return err
	case errors.Is(err, grpccodec.ErrTooLarge), errors.Is(err, lanes.ErrTooLarge):
		o.stats.Error("too_large")
		return fmt.Errorf("%w, %d bytes", errTooLarge, o.most)
	}
	o.stats.Error("corrupt")
	return fmt.Errorf("%w: %w", errCorrupt, err)
}

func (o *opener) decompress(dst, in []byte, limit int, p *plan, g *memory.Grant) ([]byte, error) {
	if p.from == pairEncoding {
		return o.openPaired(dst, in, limit, p.pair.prev, g)
	}
	return o.openPlain(dst, in, p.from, limit, g)
}

// openPlain appends a message that was compressed without a dictionary.
func (o *opener) openPlain(dst, in []byte, encoding string, limit int, g *memory.Grant) ([]byte, error) {
	out, err := o.codecs.AppendDecompress(dst, in, encoding, limit)
	if !errors.Is(err, grpccodec.ErrTooLarge) || limit >= o.most {
		return out, err
	}
	if err := o.exceed(limit, g); err != nil {
		return nil, err
	}
	return o.codecs.AppendDecompress(dst, in, encoding, o.most)
}

// openLaned decompresses a message of a call in lanes, within the grant. The result has room for a header at
// its beginning.
func (o *opener) openLaned(in []byte, p *plan, g *memory.Grant) ([]byte, error) {
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
func (o *opener) openAlone(m lanes.Laned, p *plan, g *memory.Grant) ([]byte, error) {
	limit := o.limit(len(m.Body), false)
	if err := g.Acquire(2*int64(limit), 2*int64(limit)); err != nil {
		return nil, err
	}
	dst := memory.GetBuffer(wire.HeaderLen + min(limit, 4*len(m.Body)))[:wire.HeaderLen]
	out, err := o.openPlain(dst, m.Body, codec.Proto.String(), limit, g)
	if err != nil {
		return nil, err
	}
	o.ratio.saw(len(m.Body), len(out))
	p.in.OpenedAlone(m, len(out)-wire.HeaderLen)
	return out, nil
}

// openInLane decompresses a message that was sent in a lane.
func (o *opener) openInLane(m lanes.Laned, p *plan, g *memory.Grant) ([]byte, error) {
	raw := m.RawLen()
	if raw > o.most {
		return nil, lanes.ErrTooLarge
	}
	if err := g.Acquire(2*int64(raw), 2*int64(raw)); err != nil {
		return nil, err
	}
	return p.in.Open(memory.GetBuffer(wire.HeaderLen + raw)[:wire.HeaderLen], m, raw)
}

// exceed asks the grant for decompressing up to o.most bytes instead of limit.
func (o *opener) exceed(limit int, g *memory.Grant) error {
	return g.AcquireBeyond(2 * int64(o.most-limit))
}

// openPaired appends a message of the private encoding, decompressed.
func (o *opener) openPaired(dst, in []byte, limit int, dicts cinch.Dictionaries, g *memory.Grant) ([]byte, error) {
	m, err := wire.ParsePaired(in)
	switch {
	case err != nil:
		return nil, err
	case m.Number == 0:
		return o.openPlain(dst, in, codec.Zstd.String(), limit, g)
	case m.Len > uint64(o.most):
		return nil, grpccodec.ErrTooLarge
	}
	d, err := dicts.Dictionary(m.Number)
	if err != nil {
		return nil, &missingError{number: m.Number}
	}
	if int(m.Len) > limit {
		if err := o.exceed(limit, g); err != nil {
			return nil, err
		}
	}
	out, err := o.engine.Decompress(dst, m.Frame, codec.Zstd, int(m.Len), d)
	if err == nil {
		o.totals.Messages.Opened.Add(1)
	}
	return out, err
}

// ratio estimates how many times its size a message decompresses to. It follows large ratios at once and
// small ones slowly. The estimate determines how much memory is requested before a message has arrived.
type ratio struct{ guess atomic.Int64 }

const (
	firstRatio = 16
	leastRatio = 4
	slowly     = 64
)

func (r *ratio) limit(n int) int {
	guess := r.guess.Load()
	if guess == 0 {
		guess = firstRatio * slowly
	}
	return int(guess)*n/slowly + 512
}

// saw updates the estimate with a message of n bytes that decompressed to raw bytes. Concurrent updates may
// get lost, which does no harm.
func (r *ratio) saw(n, raw int) {
	fits := int64(raw) * slowly / int64(max(n, 1)) * 3 / 2
	guess := r.guess.Load()
	if guess == 0 {
		guess = firstRatio * slowly
	}
	r.guess.Store(max(fits, guess-guess/slowly, leastRatio*slowly))
}
