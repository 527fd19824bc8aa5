package link

import (
	"crypto/tls"
	"hash/crc32"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// PieceBytes is the most that a piece holds.
const PieceBytes = wire.MaxRaw

// headRoom is the space in front of a piece for its header, and for frames sent with it, in bytes.
const headRoom = 64

// rawFrameBytes limits the bytes in the frame of an uncompressed piece. The peer passes on whole frames, so shorter
// ones arrive sooner.
const rawFrameBytes = 16 << 10

// maxStoredHeaders is the length of the headers of an uncompressed piece, in bytes.
const maxStoredHeaders = wire.MaxRaw / rawFrameBytes * 4

// pieceMemory is the memory for the longest piece, in bytes: the piece as it was read, and its frames.
const pieceMemory = PieceBytes + 2*PieceBytes

// sender writes frames to the link. The goroutine that reads the local connection calls piece. Other goroutines leave
// GRANT and SPEED in notes, which are sent with the next piece or, if there is none, by a goroutine of their own. So
// the goroutine that reads the link never blocks in writing to it: two peers that both did would wait forever.
type sender struct {
	e      *Endpoint
	l      *Link
	conn   net.Conn
	hello  byte   // window that the peer's hello has granted
	codecs uint16 // codecs that the peer decompresses, a bit each
	speed  *speed // measurements for this peer

	finished atomic.Bool // FIN is being sent, or was

	memory heldMemory // of a piece, from Collect until it is sent
	failed error      // read error that came together with bytes, for the next Collect

	mu       sync.Mutex         // held while writing
	stream   codec.StreamWriter // nil: no history
	window   byte               // of stream, log2 of bytes
	setting  codec.Setting      // of stream
	carried  int64              // bytes of stream before compression
	held     int64              // memory of histories for stream, in bytes
	lastUsed time.Time          // when a piece was last compressed
	lastSent time.Time          // when a link whose owner has state (Sharing) last sent a piece; zero: none since the last DROP
	epoch    byte               // number of DROPs sent, modulo 256
	choice   choice             // for the current piece
	pieces   uint               // compressed ones
	over     bool               // nothing may be written any more

	notes notes
}

// notes are GRANT and SPEED frames that wait to be sent, and the peer's latest GRANT.
type notes struct {
	mu      sync.Mutex
	grant   wire.Frame // Window 0: none
	speed   uint32     // 0: none
	granted byte       // window that the peer has granted
	epoch   byte       // of granted
	busy    bool       // a goroutine was started to send the frames
}

func (o *sender) init(l *Link, theirs wire.Hello) {
	o.e, o.l, o.conn, o.hello, o.codecs = l.e, l, l.conn, theirs.Window, theirs.Codecs
}

// collectMore adds to the n bytes in buf those that can be read without waiting, up to PieceBytes, or to the length of
// buf if there is no memory for a larger one.
func (o *sender) collectMore(c net.Conn, buf []byte, n int) ([]byte, int, error) {
	if _, records := c.(*tls.Conn); records {
		n += o.more(c, buf[n:])
	}
	if n < len(buf) || !o.memory.try(pieceMemory) {
		return buf, n, nil
	}
	large := memory.GetBuffer(PieceBytes)[:PieceBytes]
	copy(large, buf)
	memory.PutBuffer(buf)
	n += o.more(c, large[n:])
	return large, n, nil
}

// more reads bytes that have arrived, without waiting.
func (o *sender) more(c net.Conn, p []byte) (n int) {
	n, o.failed = gateway.ReadReady(c, p)
	return n
}

// piece sends the first n bytes of buf, uncompressed if they are secret, and takes ownership of buf.
func (o *sender) piece(buf []byte, n int, secret bool) error {
	o.memory.wait() // while other goroutines write
	o.mu.Lock()
	o.memory.waited()
	defer o.mu.Unlock()
	defer o.memory.keep(0)
	if o.over {
		memory.PutBuffer(buf)
		return net.ErrClosed
	}
	began := time.Now()
	if o.l.sharing.Load() != nil {
		o.lastSent = began
	}
	out := memory.GetBuffer(headRoom + n + maxStoredHeaders)
	out, at := o.encodeWhole(out[:headRoom], buf[:n], secret)
	memory.PutBuffer(buf)
	if o.e.cfg.Latency {
		o.e.cfg.Stats.Latency(time.Since(began))
	}
	head := o.takeNotes(make([]byte, 0, headRoom))
	at -= len(head)
	copy(out[at:], head)
	o.memory.keep(int64(cap(out)))
	o.memory.wait()
	_, err := o.conn.Write(out[at:])
	o.memory.waited()
	memory.PutBuffer(out)
	return err
}

// encodeWhole is like encode, or store for secret bytes. After a panic nothing is sent any more, because the history
// may be damaged.
func (o *sender) encodeWhole(out, raw []byte, secret bool) (_ []byte, at int) {
	if secret {
		return o.store(out, raw), headRoom
	}
	o.over = true
	out, at = o.encode(out, raw)
	o.over = false
	return out, at
}

// encode appends the frames of a piece to out. They begin at the index that it returns, with room for notes before it.
func (o *sender) encode(out, raw []byte) ([]byte, int) {
	how := o.choose(raw)
	began := time.Now()
	f, out, err := o.compress(out, raw, how)
	if err != nil {
		o.endStream() // a stream must not be used after an error
		how.reason = "error"
	}
	if err != nil || f.RawLen == 0 {
		o.e.cfg.Stats.Left(o.e.cfg.Rule, how.reason, len(raw))
		return o.store(out[:headRoom], raw), headRoom
	}
	var header [wire.MaxHeader]byte
	head := wire.AppendCoded(header[:0], f, len(out)-headRoom)
	at := headRoom - len(head)
	copy(out[at:], head)
	took := time.Since(began)
	o.e.cfg.Stats.Sealed(o.e.cfg.Rule, how.setting.Codec, len(raw), len(out)-at, took)
	o.speed.compressed(how.setting, len(raw), len(out)-at, took)
	return out, at
}

// store appends raw Blocks.
func (o *sender) store(out, raw []byte) []byte {
	for len(raw) > 0 {
		n := min(len(raw), rawFrameBytes)
		out = append(wire.AppendRaw(out, n), raw[:n]...)
		raw = raw[n:]
	}
	return out
}

// compress appends the compressed piece. If RawLen is 0 the piece must be sent uncompressed, for how.reason.
func (o *sender) compress(out, raw []byte, how *choice) (wire.Frame, []byte, error) {
	if how.setting.Codec == codec.Raw {
		return wire.Frame{}, out, nil
	}
	f := wire.Frame{RawLen: len(raw), Sum: crc32.Checksum(raw, castagnoli)}
	o.lastUsed = time.Now()
	var err error
	switch {
	case how.setting.Codec == codec.Zstd && o.ready(how.setting):
		f.Kind, f.Window = wire.Piece, o.window
		if o.carried == 0 {
			f.Kind = wire.Begin
		}
		how.setting = o.setting // another level costs the history, so it waits; see changeBytes
		out, err = o.stream.Append(out, raw)
		o.carried += int64(len(raw))
	default:
		f.Kind, f.Codec = wire.Block, byte(how.setting.Codec)
		out, err = o.e.cfg.Engine.Compress(out, raw, how.setting, nil)
		if len(out)-headRoom >= len(raw) {
			how.reason = "no_gain"
			return wire.Frame{}, out, err
		}
	}
	return f, out, err
}

// ready makes sure that there is a stream, and reports whether there is: not without a grant or memory.
func (o *sender) ready(want codec.Setting) bool {
	granted := o.granted()
	o.pieces++
	switch {
	case granted == 0:
		o.endStream()
		return false
	case o.stream == nil:
		return (o.pieces%o.e.cfg.Growth.turn == 1 || !o.l.client.tight()) && o.begin(want, granted)
	case want != o.setting && o.carried >= changeBytes:
		return o.begin(want, granted)
	case granted > o.window && o.pieces%o.e.cfg.Growth.turn == 0:
		return o.begin(want, granted)
	}
	return true
}

// granted returns the largest window that may be used, log2 of bytes.
func (o *sender) granted() byte {
	n := &o.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	window := o.hello
	if n.granted != 0 && n.epoch == o.epoch {
		window = max(window, n.granted)
	}
	return min(window, byte(o.e.cfg.Window))
}

// begin replaces the stream by one with the largest window, up to window, for which there is memory. It reports whether
// there is a stream afterwards.
func (o *sender) begin(want codec.Setting, window byte) bool {
	level := max(want.Level, 1)
	for ; window >= codec.MinStreamWindow; window -= 3 {
		if o.stream != nil && want == o.setting && window <= o.window {
			return true // keep it: the new one would not be larger
		}
		n, _ := o.e.cfg.Engine.StreamBytes(level, int(window))
		if !o.l.client.grab(int64(n)) {
			continue
		}
		stream, err := o.e.cfg.Engine.StreamWriter(level, int(window))
		if err != nil {
			o.l.client.free(int64(n))
			o.e.cfg.Stats.Error("codec")
			return o.stream != nil
		}
		o.endStream()
		o.stream, o.window, o.setting, o.held, o.carried = stream, window, want, int64(n), 0
		o.e.counts.begun.Add(1)
		return true
	}
	if o.stream == nil {
		o.e.counts.without.Add(1)
	}
	return o.stream != nil
}

// endStream frees the stream. The peer keeps the history until BEGIN or DROP.
func (o *sender) endStream() {
	if o.stream == nil {
		return
	}
	o.stream.Close()
	o.l.client.free(o.held)
	o.stream, o.held, o.carried, o.window = nil, 0, 0, 0
}

// mayDrop reports whether this side or the peer may hold something that a DROP frees. o.mu must be held.
func (o *sender) mayDrop() bool {
	if !o.lastSent.IsZero() {
		return true
	}
	n := &o.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	return o.stream != nil || n.granted != 0 && n.epoch == o.epoch
}

// forgetIdle drops the history and the grants if they were unused for idle.
func (o *sender) forgetIdle(idle time.Duration) {
	defer gateway.CatchPanic(o.e.cfg.Log, o.e.cfg.Stats, o.l.abort)
	if !o.mu.TryLock() {
		return // in use
	}
	defer o.mu.Unlock()
	last := o.lastUsed
	if o.lastSent.After(last) {
		last = o.lastSent
	}
	if o.over || !o.mayDrop() || time.Since(last) < idle || o.l.busy() {
		return
	}
	if o.stream != nil {
		o.endStream()
		o.e.counts.dropped.Add(1)
	}
	go o.drop()
}

// drop sends DROP. It runs in a goroutine of its own, because the write may block.
func (o *sender) drop() {
	defer gateway.CatchPanic(o.e.cfg.Log, o.e.cfg.Stats, o.l.abort)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over || o.stream != nil || !o.l.mayForget() {
		return // the link has ended, or there is a new stream
	}
	o.epoch++
	o.lastSent = time.Time{}
	if _, err := o.conn.Write(wire.AppendPlain(nil, wire.Frame{Kind: wire.Drop})); err != nil {
		o.l.abort()
	}
}

// takeNotes appends the frames that wait to be sent. o.mu must be held.
func (o *sender) takeNotes(dst []byte) []byte {
	n := &o.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.grant.Window != 0 {
		dst = wire.AppendPlain(dst, n.grant)
	}
	if n.speed != 0 {
		dst = wire.AppendPlain(dst, wire.Frame{Kind: wire.Speed, Speed: n.speed})
	}
	n.grant, n.speed, n.busy = wire.Frame{}, 0, false
	return dst
}

// note sends a GRANT or SPEED soon, without blocking.
func (o *sender) note(f wire.Frame) {
	n := &o.notes
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.Kind == wire.Grant {
		n.grant = f
	} else {
		n.speed = f.Speed
	}
	if !n.busy {
		n.busy = true
		go o.sendNotes()
	}
}

func (o *sender) sendNotes() {
	defer gateway.CatchPanic(o.e.cfg.Log, o.e.cfg.Stats, o.l.abort)
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.takeNotes(nil)
	if len(b) == 0 || o.over {
		return
	}
	if _, err := o.conn.Write(b); err != nil {
		o.l.abort()
	}
}

// take records a GRANT of the peer.
func (o *sender) take(f wire.Frame) {
	n := &o.notes
	n.mu.Lock()
	n.granted, n.epoch = f.Window, f.Epoch
	n.mu.Unlock()
}

// finish sends FIN. Only notes may follow. finished is set before the write, because the peer may close the link before
// the write returns.
func (o *sender) finish() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over {
		return net.ErrClosed
	}
	o.endStream()
	o.finished.Store(true)
	_, err := o.conn.Write([]byte{byte(wire.Fin)})
	return err
}

// end frees the history, and sends a last frame if it is not empty. Nothing is sent after it.
func (o *sender) end(last []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.endStream()
	if o.over {
		return
	}
	o.over = true
	if len(last) > 0 {
		_, _ = o.conn.Write(last)
	}
}
