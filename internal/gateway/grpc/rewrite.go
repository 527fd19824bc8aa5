package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

var (
	errTooLarge = errors.New("a compressed message is larger than max_open")
	errCorrupt  = errors.New("a message can't be decompressed")
	errFormat   = errors.New("the messages can't be told apart")
)

// plan is what becomes of the messages of one direction of a call.
type plan struct {
	from, to string                // encodings; "" is none
	byRule   bool                  // a rule has chosen to
	rules    []*policy.MessageRule // that compress with to, or say raw; in order

	marked  bool                // messages that the client had compressed are marked
	restore *policy.MessageRule // compresses those, and others stay plain; nil: rules decide
	marks   string              // we mark those that had this encoding; "": we don't

	pair *pairing // what is counted, and dictionaries; nil: neither
}

// untouched reports whether all messages go as they came.
func (p *plan) untouched() bool {
	return p.from == p.to && len(p.rules) == 0 && !p.marked && p.marks == "" && p.pair == nil
}

// ruleFor returns the rule for a plain message, nil if it is to stay so.
func (p *plan) ruleFor(n int, marked bool) *policy.MessageRule {
	if p.restore != nil {
		if marked {
			return p.restore
		}
		return nil
	}
	if p.to == "" {
		return nil
	}
	for _, r := range p.rules {
		if r.Fits(n) {
			if r.Raw() {
				return nil
			}
			return r
		}
	}
	return nil
}

// rewriter reads the body of one direction and is read by the next hop: each message is
// left alone, opened, compressed, or both. It holds one message at a time, within the
// budget. It belongs to its reader.
type rewriter struct {
	g    *Gateway
	ctx  context.Context
	src  io.Reader
	plan plan
	from gateway.Peer // that src comes from
	to   gateway.Peer // that reads us

	account gateway.Account
	moved   atomic.Int64 // bytes, of messages that hold memory

	header  [wire.HeaderLen]byte
	out     []byte // what is ready for the reader, a pooled buffer
	at      int    // in out
	marked  bool   // the client had compressed the message at hand
	passing uint32 // bytes of the message at hand that go through as they come
	held    int64  // of the budget, for out
	bigHeld bool   // g.big is ours
	given   bool   // something has been handed on

	kind     *autodict.Kind // of messages under kindRule, or of all
	kindRule *policy.MessageRule

	err error

	spent atomic.Int64 // nanoseconds, on compressing and opening
}

// Read gives what goes to the next hop.
func (w *rewriter) Read(p []byte) (int, error) {
	for {
		switch {
		case w.at < len(w.out):
			w.given = true
			return w.give(p)
		case w.out != nil:
			w.free()
		case w.passing > 0:
			return w.pass(p)
		case w.err != nil:
			return 0, w.err
		default:
			w.err = w.next()
		}
	}
}

// hold says that what is ready waits for who reads us.
func (w *rewriter) hold() {
	if w.held > 0 {
		w.account.Await(w.to)
	}
}

// give moves what is ready. A header goes with the first bytes of its message, lest each
// travel in a frame of its own; nobody can use a header alone.
func (w *rewriter) give(p []byte) (int, error) {
	n := copy(p, w.out[w.at:])
	w.at += n
	w.moved.Add(int64(n))
	if w.at < len(w.out) || w.passing == 0 || n == len(p) {
		return n, nil
	}
	more, err := w.pass(p[n:])
	if err != nil && w.err == nil {
		w.err = err
	}
	return n + more, nil
}

// pass moves a piece of a message that stays as it is.
func (w *rewriter) pass(p []byte) (int, error) {
	n, err := w.src.Read(p[:min(len(p), int(w.passing))])
	w.passing -= uint32(n)
	if err != nil && (w.passing > 0 || !errors.Is(err, io.EOF)) {
		w.passing, w.err = 0, err // a body that ends within a message ends so for the next hop too
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// next decides about the next message. It returns io.EOF at the end of the body.
func (w *rewriter) next() error {
	n, err := fill(w.src, w.header[:])
	if err == io.EOF && n > 0 {
		w.set(append(gateway.GetBuffer(n), w.header[:n]...))
		return io.EOF
	}
	if err != nil {
		return err
	}
	h, err := w.parse()
	if err != nil {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	switch {
	case h.Compressed && w.plan.from == w.plan.to && w.plan.from != pairEncoding:
		return w.passCompressed(h)
	case h.Compressed:
		return w.open(int(h.Len))
	}
	rule := w.plan.ruleFor(int(h.Len), w.marked)
	if rule == nil {
		return w.passPlain(h)
	}
	return w.compress(rule, int(h.Len))
}

// parse reads the header of the message at hand.
func (w *rewriter) parse() (h wire.Header, err error) {
	if w.plan.marked {
		h, w.marked, err = wire.ParseMarked(w.header[:])
		return h, err
	}
	h, err = wire.ParseHeader(w.header[:])
	w.marked = h.Compressed
	return h, err
}

// putHeader appends the header of what becomes of the message at hand.
func (w *rewriter) putHeader(dst []byte, compressed bool, n int) []byte {
	at := len(dst)
	dst = wire.AppendHeader(dst, compressed, n)
	if w.marked && w.plan.marks != "" {
		wire.Mark(dst[at:])
	}
	return dst
}

// letPass sends the message at hand as it is.
func (w *rewriter) letPass(h wire.Header) error {
	w.set(w.putHeader(gateway.GetBuffer(wire.HeaderLen), h.Compressed, int(h.Len)))
	w.passing = h.Len
	return nil
}

func (w *rewriter) set(out []byte) { w.out, w.at = out, 0 }

// close is the end of it, when nobody reads it any more.
func (w *rewriter) close() {
	w.free()
	w.account.Close()
}

// free gives back what the last message took.
func (w *rewriter) free() {
	gateway.PutBuffer(w.out)
	w.out, w.at = nil, 0
	w.account.Awaited(w.to)
	w.account.Release(w.held)
	w.held = 0
	if w.bigHeld {
		<-w.g.big
		w.bigHeld = false
	}
}

// compress reads a plain message and sends it compressed, if that is worth it and memory
// is there; else it goes as it is.
func (w *rewriter) compress(rule *policy.MessageRule, n int) error {
	if n > w.g.config.MaxSeal {
		w.g.config.Stats.Left(rule.Name, "large", n)
		if k := w.kindOf(rule); k != nil {
			k.Passed(n)
		}
		return w.letPass(wire.Header{Len: uint32(n)})
	}
	in, err := w.gather(n)
	if err != nil {
		return err
	}
	if len(in) < n {
		w.g.config.Stats.Left(rule.Name, "budget", n)
		w.send(in, false)
		w.putLength(n)
		gateway.PutBuffer(in)
		return nil
	}
	w.pack(rule, in, in)
	return nil
}

// putLength corrects the header of a message of which only the beginning is in out.
func (w *rewriter) putLength(n int) {
	w.passing = uint32(n - (len(w.out) - wire.HeaderLen))
	w.putHeader(w.out[:0], false, n)
}

// firstGather is how much of a message is asked memory for before any of it is there.
const firstGather = 64 << 10

// gather reads a plain message of n bytes, and asks for memory only as its bytes come: who
// announces much and sends nothing holds nothing. When there is no memory it returns the
// beginning.
func (w *rewriter) gather(n int) ([]byte, error) {
	var in []byte
	for len(in) < n {
		size := min(n, max(firstGather, 2*len(in)))
		if more := 2*int64(size) - w.held; w.account.TryAcquire(more) {
			w.held += more
		} else {
			return in, nil
		}
		var err error
		if in, err = w.gatherTo(in, size, n); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// gatherTo brings what is there of a message of n bytes to size, in a larger buffer. It takes over the
// one in which it lies.
func (w *rewriter) gatherTo(in []byte, size, n int) ([]byte, error) {
	grown := append(gateway.GetBuffer(size), in...)
	gateway.PutBuffer(in)
	have := len(grown)
	got, err := w.fill(grown[have:size])
	if err != nil {
		gateway.PutBuffer(grown)
		return nil, cutOff(err, have+got, n)
	}
	return grown[:size], nil
}

// fill reads a piece of a message that holds memory.
func (w *rewriter) fill(p []byte) (n int, err error) {
	w.account.Await(w.from)
	defer w.account.Awaited(w.from)
	for n < len(p) && err == nil {
		var more int
		more, err = w.src.Read(p[n:])
		n += more
		w.moved.Add(int64(more))
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// fill reads until p is full. Unlike io.ReadFull it leaves errors as they are: the transport
// says io.ErrUnexpectedEOF when a connection breaks.
func fill(src io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var more int
		more, err = src.Read(p[n:])
		n += more
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

// pack sets what goes out for a plain message. It takes over the buffer that the message
// lies in.
func (w *rewriter) pack(rule *policy.MessageRule, in, buf []byte) {
	defer gateway.PutBuffer(buf)
	start := time.Now()
	packed, settled, err := w.compressed(rule, in)
	took := time.Since(start)
	w.spent.Add(int64(took))
	stats, raw := w.g.config.Stats, len(in)
	switch {
	case err != nil && errors.Is(err, w.ctx.Err()): // the call is over, and nobody reads this
	case err != nil:
		stats.Error("compress")
		stats.Left(rule.Name, "error", raw)
	case !rule.Worth(raw, len(packed.bytes)) && rule != w.plan.restore && !w.g.forced():
		stats.SealTime(rule.Name, rule.Setting.Codec, took)
		stats.Left(rule.Name, "no_gain", raw)
	default:
		stats.Sealed(rule.Name, rule.Setting.Codec, raw, len(packed.bytes), took)
		w.send(packed.bytes, true)
		if settled {
			w.saw(rule, in, len(packed.bytes))
		}
		packed.done()
		return
	}
	packed.done()
	w.send(in, false)
	if settled {
		w.saw(rule, in, raw)
	}
}

// send copies a message behind its header.
func (w *rewriter) send(m []byte, compressed bool) {
	out := w.putHeader(gateway.GetBuffer(wire.HeaderLen+len(m)), compressed, len(m))
	w.set(append(out, m...))
	w.shrink()
	w.hold()
}

// shrink gives back the budget for what is no longer held.
func (w *rewriter) shrink() {
	if keep := int64(cap(w.out)); w.held > keep {
		w.account.Release(w.held - keep)
		w.held = keep
	}
}

// gatherAll reads a message of n bytes, and then takes what else is needed to open it: cost bytes in
// all.
func (w *rewriter) gatherAll(n int, cost int64) ([]byte, error) {
	var in []byte
	for len(in) < n {
		size := min(n, max(firstGather, 2*len(in)))
		if err := w.waitForRoom(int64(size)-w.held, cost-w.held); err != nil {
			gateway.PutBuffer(in)
			return nil, err
		}
		var err error
		if in, err = w.gatherTo(in, size, n); err != nil {
			return nil, err
		}
	}
	if err := w.waitForRoom(cost-w.held, cost-w.held); err != nil {
		gateway.PutBuffer(in)
		return nil, err
	}
	return in, nil
}

// ratio guesses how many times its size a message opens to: it follows large ones at once
// and small ones slowly. What memory is asked for before a message is there hangs on it.
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

// saw takes a message of n bytes that opened to raw bytes. That guesses get lost when two
// come at a time does no harm.
func (r *ratio) saw(n, raw int) {
	fits := int64(raw) * slowly / int64(max(n, 1)) * 3 / 2
	guess := r.guess.Load()
	if guess == 0 {
		guess = firstRatio * slowly
	}
	r.guess.Store(max(fits, guess-guess/slowly, leastRatio*slowly))
}

// open reads a compressed message of another encoding than the next hop's, and sends it
// plain, or compressed anew.
func (w *rewriter) open(n int) error {
	if !w.plan.canOpen() {
		return fmt.Errorf("%w: compressed, without an encoding", errFormat)
	}
	most := w.g.config.MaxOpen
	if n > most {
		return fmt.Errorf("%w: %d bytes", errTooLarge, n)
	}
	limit := min(most, w.g.ratio.limit(n))
	if w.plan.from == pairEncoding {
		limit = min(most, max(limit, autodict.MaxMessageSample))
	}
	in, err := w.gatherAll(n, int64(n)+2*int64(limit))
	if err != nil {
		return err
	}
	defer gateway.PutBuffer(in)
	out, err := w.expand(in, limit)
	if err != nil {
		return err
	}
	raw := out[wire.HeaderLen:]
	if rule := w.plan.ruleFor(len(raw), w.marked); rule != nil && len(raw) <= w.g.config.MaxSeal {
		w.pack(rule, raw, out)
		return nil
	}
	w.saw(nil, raw, len(raw))
	w.putHeader(out[:0], false, len(raw))
	w.set(out)
	w.shrink()
	w.hold()
	return nil
}

// canOpen reports whether compressed messages can be read.
func (p *plan) canOpen() bool {
	if p.from == pairEncoding {
		return p.pair != nil && p.pair.prev != nil
	}
	return canOpen(p.from)
}

// expand opens a message, with room for a header before it. It may become limit bytes, or
// as many as are allowed at all when there is budget for them, or when nobody else opens so
// much without: nobody waits for anything who does.
func (w *rewriter) expand(in []byte, limit int) ([]byte, error) {
	start := time.Now()
	defer func() { w.spent.Add(int64(time.Since(start))) }()
	stats := w.g.config.Stats
	dst := gateway.GetBuffer(wire.HeaderLen + min(limit, 4*len(in)))[:wire.HeaderLen]
	out, err := w.decompress(dst, in, limit)
	var missing *missingError
	switch {
	case errors.As(err, &missing), err != nil && errors.Is(err, w.ctx.Err()):
		return nil, err
	case errors.Is(err, grpccodec.ErrTooLarge):
		stats.Error("too_large")
		return nil, fmt.Errorf("%w, %d bytes", errTooLarge, w.g.config.MaxOpen)
	case err != nil:
		stats.Error("corrupt")
		return nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	w.g.ratio.saw(len(in), len(out))
	id, err := codec.ParseID(w.plan.from)
	if err != nil {
		id = codec.Zstd // of gateways
	}
	stats.Opened(id, len(in), len(out)-wire.HeaderLen, time.Since(start))
	return out, nil
}

func (w *rewriter) decompress(dst, in []byte, limit int) ([]byte, error) {
	if w.plan.from == pairEncoding {
		return w.openPaired(dst, in, limit)
	}
	return w.openWithin(limit, func(limit int) ([]byte, error) {
		return w.g.config.Codecs.AppendDecompress(dst, in, w.plan.from, limit)
	})
}

// openWithin opens within limit, or within all that is allowed if there is room for that.
func (w *rewriter) openWithin(limit int, open func(limit int) ([]byte, error)) ([]byte, error) {
	out, err := open(limit)
	if !errors.Is(err, grpccodec.ErrTooLarge) || limit >= w.g.config.MaxOpen {
		return out, err
	}
	if err := w.roomForMost(limit); err != nil {
		return nil, err
	}
	return open(w.g.config.MaxOpen)
}

// roomForMost gets leave to open a message to whatever is allowed, beyond limit.
func (w *rewriter) roomForMost(limit int) error {
	if w.bigHeld {
		return nil
	}
	if more := 2 * int64(w.g.config.MaxOpen-limit); w.account.TryAcquire(more) {
		w.held += more
		return nil
	}
	select {
	case w.g.big <- struct{}{}:
		w.bigHeld = true
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}
