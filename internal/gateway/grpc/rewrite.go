package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// rewriter reads the messages of one direction and returns each unchanged, decompressed, compressed or
// recompressed. It holds one message at a time, within the budget. Only its reader may use it, except for
// codecTime.
type rewriter struct {
	to           memory.Peer // reader of the messages
	plan         plan
	decompressor *decompressor
	compressor   *compressor

	grant  memory.Grant
	gather memory.Gatherer
	meter  meter

	header  [wire.HeaderLen]byte
	out     []byte // ready for the reader; pooled
	at      int    // start of the unread part of out
	marked  bool   // the client had compressed the current message
	passing uint32 // bytes of the current message that still pass through unchanged
	started bool   // some bytes were returned
	err     error

	spent atomic.Int64 // nanoseconds, on compressing and decompressing
}

// newRewriter returns a rewriter that changes the messages of src, requests or replies, as planned. Its grant
// has no account yet.
func newRewriter(ctx context.Context, src io.Reader, p plan, replies bool, o *decompressor, c *compressor) *rewriter {
	w := &rewriter{plan: p, decompressor: o, compressor: c}
	from := memory.FromClient
	w.to = memory.FromUpstream
	if replies {
		from, w.to = w.to, from
	}
	w.grant.Ctx, w.grant.Ahead = ctx, o.ahead
	w.gather = memory.Gatherer{Src: src, From: from, Grant: &w.grant}
	w.meter = meter{kinds: c.kinds, measured: p.measured}
	return w
}

// Read returns bytes for the next hop.
func (w *rewriter) Read(p []byte) (int, error) {
	for {
		switch {
		case w.at < len(w.out):
			w.started = true
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

// give returns bytes that are ready. A header is returned together with the first bytes of its message, so
// that the two do not travel in separate frames.
func (w *rewriter) give(p []byte) (int, error) {
	n := copy(p, w.out[w.at:])
	w.at += n
	w.grant.Moved.Add(int64(n))
	if w.at < len(w.out) || w.passing == 0 || n == len(p) {
		return n, nil
	}
	more, err := w.pass(p[n:])
	if err != nil && w.err == nil {
		w.err = err
	}
	return n + more, nil
}

// pass returns a piece of a message that passes through unchanged.
func (w *rewriter) pass(p []byte) (int, error) {
	n, err := w.gather.Src.Read(p[:min(len(p), int(w.passing))])
	w.passing -= uint32(n)
	if err != nil && (w.passing > 0 || !errors.Is(err, io.EOF)) {
		w.passing, w.err = 0, err // the next hop sees that the body ends within a message, too
	}
	if n > 0 {
		return n, nil
	}
	return 0, err
}

// next begins the next message. It returns io.EOF at the end of the body.
func (w *rewriter) next() error {
	n, err := fill(w.gather.Src, w.header[:])
	if err == io.EOF && n > 0 {
		w.set(append(memory.GetBuffer(n), w.header[:n]...))
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
	case h.Compressed && w.plan.from == w.plan.to && w.plan.from != lanes.Encoding:
		w.meter.countCompressed(int(h.Len))
		return w.passSampled(h)
	case h.Compressed:
		return w.open(int(h.Len))
	}
	rule := w.plan.ruleFor(int(h.Len), w.marked)
	if rule == nil {
		return w.passPlain(h)
	}
	return w.compress(rule, int(h.Len))
}

// parse parses the header of the current message.
func (w *rewriter) parse() (h wire.Header, err error) {
	if w.plan.marked {
		h, w.marked, err = wire.ParseMarked(w.header[:])
		return h, err
	}
	h, err = wire.ParseHeader(w.header[:])
	w.marked = h.Compressed
	return h, err
}

// passThrough lets the current message pass through unchanged.
func (w *rewriter) passThrough(h wire.Header) error {
	w.set(w.putHeader(memory.GetBuffer(wire.HeaderLen), h.Compressed, int(h.Len)))
	w.passing = h.Len
	return nil
}

// passPlain sends a plain message that no rule covers unchanged. The meter may read it.
func (w *rewriter) passPlain(h wire.Header) error {
	n := int(h.Len)
	if !w.meter.shouldRead(n) {
		w.meter.countUnchanged(n)
		return w.passSampled(h)
	}
	in, err := w.readAvailable(n)
	if err != nil {
		return err
	}
	if len(in) == n {
		w.meter.observeSent(in)
	} else {
		w.meter.countUnchanged(n)
	}
	w.sendUnchanged(h, in)
	return nil
}

// passSampled sends the current message unchanged. It is sampled if all messages are measured.
func (w *rewriter) passSampled(h wire.Header) error {
	if !w.meter.shouldSample(int(h.Len)) {
		w.meter.countReceived(int(h.Len))
		return w.passThrough(h)
	}
	in, err := w.readAvailable(int(h.Len))
	if err != nil {
		return err
	}
	w.sendUnchanged(h, in)
	return nil
}

// sendUnchanged sends the current message; in is all of it or its beginning. It takes over in.
func (w *rewriter) sendUnchanged(h wire.Header, in []byte) {
	w.sampleReceived(in, int(h.Len), h.Compressed)
	w.send(in, h.Compressed)
	if len(in) < int(h.Len) {
		w.putLength(h)
	}
	memory.PutBuffer(in)
}

// sampleReceived passes a message of n bytes to the meter as received. in is all of it or the beginning.
func (w *rewriter) sampleReceived(in []byte, n int, compressed bool) {
	switch {
	case len(in) < n:
		w.meter.countReceived(n)
	case compressed:
		w.meter.sampleReceived(in, w.plan.from)
	default:
		w.meter.sampleReceived(in, "")
	}
}

// compress reads a plain message and sends it compressed, if that saves enough and memory is available.
// Otherwise the message is sent unchanged.
func (w *rewriter) compress(rule *policy.MessageRule, n int) error {
	if n > w.compressor.maxLen {
		w.decompressor.stats.Left(rule.Name, "large", n)
		w.meter.countUnchanged(n)
		w.meter.countReceived(n)
		return w.passThrough(wire.Header{Len: uint32(n)})
	}
	in, err := w.readAvailable(n)
	if err != nil {
		return err
	}
	if len(in) < n {
		w.decompressor.stats.Left(rule.Name, "budget", n)
		w.meter.countUnchanged(n)
		w.sendUnchanged(wire.Header{Len: uint32(n)}, in)
		return nil
	}
	w.sampleReceived(in, n, false)
	w.pack(rule, in, in)
	return nil
}

// pack compresses a plain message and sets the output. It takes over buf, which contains the message.
func (w *rewriter) pack(rule *policy.MessageRule, in, buf []byte) {
	defer memory.PutBuffer(buf)
	start := time.Now()
	packed, err := w.compressor.compress(w.grant.Ctx, in, rule, w.plan.out, w.plan.force || w.plan.restore != nil)
	took := time.Since(start)
	w.spent.Add(int64(took))
	if err == nil {
		w.compressor.effort.RecordLatency(took)
	}
	raw := len(in)
	switch {
	case err != nil && errors.Is(err, w.grant.Ctx.Err()): // the call is over, and its output is not read
	case errors.Is(err, errSteppedDown):
		w.decompressor.stats.Left(rule.Name, gateway.SteppedDown, raw)
	case err != nil:
		w.decompressor.stats.Error("compress")
		w.decompressor.stats.Left(rule.Name, "error", raw)
	case !packed.sealed && !rule.SavesEnough(raw, len(packed.bytes)) && rule != w.plan.restore && !w.plan.force:
		w.decompressor.stats.SealTime(rule.Name, rule.Setting.Codec, took)
		w.decompressor.stats.Left(rule.Name, "no_gain", raw)
	default:
		w.decompressor.stats.Sealed(rule.Name, rule.Setting.Codec, raw, len(packed.bytes), took)
		w.sendPacked(packed)
		w.meter.observeSent(in)
		packed.done()
		return
	}
	packed.done()
	w.send(in, false)
	w.meter.observeSent(in)
}

// open reads a compressed message whose encoding differs from the next hop's, and sends it plain or recompressed.
func (w *rewriter) open(n int) error {
	if !w.plan.canOpen() {
		return fmt.Errorf("%w: the message is marked as compressed, but the call has no grpc-encoding", errFormat)
	}
	if n > w.decompressor.maxOpen {
		return fmt.Errorf("%w (%d bytes)", errTooLarge, w.decompressor.maxOpen)
	}
	if w.plan.from == lanes.Encoding {
		return w.openLaned(n)
	}
	limit := w.decompressor.limit(n)
	in, err := w.gather.ReadAll(n, int64(n)+2*int64(limit))
	err = cutOff(err)
	if err != nil {
		return err
	}
	defer memory.PutBuffer(in)
	out, err := w.expand(in, limit)
	if err != nil {
		return err
	}
	w.meter.sampleReceived(in, w.plan.from)
	w.deliver(out)
	return nil
}

// openLaned is open for a call in lanes. Its messages declare their decompressed length, unless they were sent alone.
func (w *rewriter) openLaned(n int) error {
	in, err := w.gather.ReadAll(n, int64(n))
	if err = cutOff(err); err != nil {
		return err
	}
	defer memory.PutBuffer(in)
	start := time.Now()
	out, err := w.decompressor.openLaned(in, &w.plan, &w.grant)
	w.spent.Add(int64(time.Since(start)))
	if err != nil {
		return err
	}
	w.meter.countReceived(n)
	w.deliver(out)
	return nil
}

// deliver sends a decompressed message, plain or compressed. out has room for a header at its beginning.
func (w *rewriter) deliver(out []byte) {
	raw := out[wire.HeaderLen:]
	if rule := w.plan.ruleFor(len(raw), w.marked); rule != nil && len(raw) <= w.compressor.maxLen {
		w.pack(rule, raw, out)
		return
	}
	w.meter.observeSent(raw)
	w.putHeader(out[:0], false, len(raw))
	w.hold(out)
}

// expand decompresses a message. The result has room for a header at its beginning.
func (w *rewriter) expand(in []byte, limit int) ([]byte, error) {
	start := time.Now()
	defer func() { w.spent.Add(int64(time.Since(start))) }()
	return w.decompressor.open(in, limit, &w.plan, &w.grant)
}

// send copies a message after its header.
func (w *rewriter) send(m []byte, compressed bool) {
	out := w.putHeader(memory.GetBuffer(wire.HeaderLen+len(m)), compressed, len(m))
	w.hold(append(out, m...))
}

// sendPacked copies a compressed message after its header.
func (w *rewriter) sendPacked(p packed) {
	if !p.headed {
		w.send(p.bytes, true)
		return
	}
	n := 1 + len(p.bytes)
	out := w.putHeader(memory.GetBuffer(wire.HeaderLen+n), true, n)
	w.hold(append(append(out, p.head), p.bytes...))
}

// putHeader appends the header for the outgoing form of the current message.
func (w *rewriter) putHeader(dst []byte, compressed bool, n int) []byte {
	at := len(dst)
	dst = wire.AppendHeader(dst, compressed, n)
	if w.marked && w.plan.marks != "" {
		wire.Mark(dst[at:])
	}
	return dst
}

// readAvailable reads a plain message, or its beginning if the budget does not allow more.
func (w *rewriter) readAvailable(n int) ([]byte, error) {
	in, err := w.gather.ReadAvailable(n)
	return in, cutOff(err)
}

// cutOff turns the end of a body within a message into a format error.
func cutOff(err error) error {
	if errors.Is(err, memory.ErrCut) {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	return err
}

// putLength corrects the header in out, which holds only the beginning of the message. The rest passes through.
func (w *rewriter) putLength(h wire.Header) {
	w.passing = uint32(int(h.Len) - (len(w.out) - wire.HeaderLen))
	w.putHeader(w.out[:0], h.Compressed, int(h.Len))
}

func (w *rewriter) set(out []byte) { w.out, w.at = out, 0 }

// hold makes a message ready for the reader, and gives back budget that it no longer needs. If the message still holds
// budget, the reader is checked for stalls until free.
func (w *rewriter) hold(out []byte) {
	w.set(out)
	w.grant.Shrink(int64(cap(out)))
	if w.grant.Held() > 0 {
		w.grant.Account.Await(w.to)
	}
}

// free frees the memory and budget of the last message.
func (w *rewriter) free() {
	memory.PutBuffer(w.out)
	w.set(nil)
	w.grant.Account.Awaited(w.to)
	w.grant.Release()
}

// close frees the rewriter's resources. It must not be read any more.
func (w *rewriter) close() {
	w.free()
	w.grant.Account.Close()
}

// codecTime returns the time spent on compressing and decompressing so far.
func (w *rewriter) codecTime() time.Duration { return time.Duration(w.spent.Load()) }

// guarded is a rewriter that may be closed while it is being read.
type guarded struct {
	rewriter *rewriter

	mu      sync.Mutex
	reading bool
	closed  bool
}

// Read reads from the rewriter, unless it is closed.
func (g *guarded) Read(p []byte) (int, error) {
	g.mu.Lock()
	g.reading = !g.closed
	g.mu.Unlock()
	if !g.reading {
		return 0, errReplaced
	}
	defer g.end()
	return g.rewriter.Read(p)
}

// end ends a read, and closes the rewriter if close was called meanwhile.
func (g *guarded) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading = false
	if g.closed {
		g.rewriter.close()
	}
}

// close closes the rewriter, or lets a running read close it at its end.
func (g *guarded) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	if !g.reading {
		g.rewriter.close()
	}
}
