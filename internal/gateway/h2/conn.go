package h2

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/internal/gateway"
)

const (
	// frameBytes is the size of frames that we read: larger ones would make every stream keep others waiting for longer.
	frameBytes = 16 << 10
	// tableBytes is the size of both tables of header compression (RFC 9113, section 6.5.2).
	tableBytes = 4096
	// closeTime is how long what was written has to leave when the connection is closed.
	closeTime = time.Second
	// calmTime is how long a peer that broke a rule may go on sending, so that it can read what it was told.
	calmTime = closeTime / 4
	// leaveTime is how long all may take that is left to do for a peer that has done nothing wrong, and leaveQuiet how long nothing
	// may come of it.
	leaveTime  = 30 * time.Second
	leaveQuiet = time.Second
)

// role is what differs between the two ends of a connection. c.mu is held but in headers.
type role interface {
	headers(id uint32, end bool, b *block) error // by the goroutine that reads
	ponged(data [8]byte)
	streamRemoved(s *stream) // that is, ended both ways or reset, or with the connection
	failed()                 // the connection has ended, whether it had streams or not
	why(err error) error     // the connection has ended, as calls are told
}

// clientRole has the methods of a connection's client end that a server lacks. They are called with c.mu held.
type clientRole interface {
	wentAway(f *http2.GoAwayFrame)
	greeted(f *http2.SettingsFrame) // by the server's first settings, behind each of them
	setting(s http2.Setting) error  // that only a server has
	admit()                         // there may be room for requests that wait
}

// Faults tells where panics are logged and counted.
type Faults struct {
	Log   *slog.Logger   // nil: the default one
	Stats *gateway.Stats // nil: nothing is counted
}

// conn is what both ends of a connection have in common.
type conn struct {
	Faults
	net        net.Conn
	role       role
	clientSide clientRole    // nil: this is a server's end
	done       chan struct{} // closed when net is

	// The reader's.
	in          *input
	fr          *http2.Framer // writes into out, guarded by mu
	dec         *hpack.Decoder
	block       block
	began       bool          // the peer's first frame has come
	hurry       time.Duration // config.headerTime
	hurried     bool          // a read deadline is set for the frame or header block that has begun
	peerGreeted bool          // its first SETTINGS have been taken
	empty       int           // DATA frames in a row that brought nothing
	window      int           // of a stream, as we give it
	settings    int           // SETTINGS frames that the peer has not acknowledged

	mu          sync.Mutex
	err         error // why it has ended; nil: it has not
	streams     map[uint32]*stream
	next        uint32    // no stream of this number or a higher one has been opened
	lastStream  uint32    // that is taken: a drain has left out those behind it
	touched     []*stream // beforeRead wakes them
	fresh       []*served // beforeRead starts their handlers
	roomWaiters []*stream // wait for output or for outWindow
	recent      endedStreams
	inflow      inflow
	output      output

	outWindow  int64
	peerWindow int64 // of a new stream
	peerFrame  int
	peerHeader int64 // bytes of a header list
	enc        *hpack.Encoder
	encoded    bytes.Buffer
	outNames   names
}

// config is what both ends are told.
type config struct {
	Faults
	window    int // of a stream, that we give
	maxHeader int
	ahead     []byte // was read already
	// headerTime limits how long the peer may take for a header block, or a frame other than DATA; 0: no limit.
	headerTime time.Duration
}

func (c *conn) init(n net.Conn, r role, cfg config) {
	c.net, c.role, c.Faults = n, r, cfg.Faults
	c.done = make(chan struct{})
	c.in = newInput(n, cfg.ahead)
	c.in.beforeRead = c.beforeRead
	c.in.wantRest = c.expectRest
	c.hurry = cfg.headerTime
	c.fr = http2.NewFramer(&c.output, c.in)
	c.fr.SetReuseFrames()
	c.fr.SetMaxReadFrameSize(frameBytes)
	c.block.limit, c.block.most = cfg.maxHeader, 2*cfg.maxHeader+frameBytes
	c.dec = hpack.NewDecoder(tableBytes, c.block.add)
	c.dec.SetMaxStringLength(c.block.most) // longer ones would end the connection, and not only their stream
	c.block.dec = c.dec
	c.streams, c.next, c.lastStream = map[uint32]*stream{}, 1, maxStreamID
	c.window = cfg.window
	c.inflow = inflow{size: initialWindow, avail: initialWindow}
	c.outWindow, c.peerWindow, c.peerFrame = initialWindow, initialWindow, 16<<10
	c.enc = hpack.NewEncoder(&c.encoded)
	c.output.init(c)
}

// widen gives the peer a larger window of the connection. c.mu is held.
func (c *conn) widen(size int) {
	if more := int64(size) - c.inflow.size; more > 0 {
		c.inflow.size += more
		c.inflow.avail += more
		_ = c.fr.WriteWindowUpdate(0, uint32(more))
	}
}

// idle reports whether a stream has yet to be opened (RFC 9113, section 5.1). Even ones are the server's, which opens none.
func (c *conn) idle(id uint32) bool { return id >= c.next || id%2 == 0 }

// last returns the peer's highest stream that counts, for GOAWAY (section 6.8).
func (c *conn) last() uint32 {
	if c.clientSide != nil {
		return 0
	}
	return min(c.next-1, c.lastStream)
}

// beforeRead acts on all frames that came with the last read, before the reader waits for more: it wakes what they have
// news for, lets handlers begin, and writes what is queued.
func (c *conn) beforeRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakeTouched()
	for i, call := range c.fresh {
		c.fresh[i] = nil
		call.server.start(call)
	}
	c.fresh = c.fresh[:0]
	c.flush()
}

func (c *conn) wakeTouched() {
	for i, s := range c.touched {
		s.touched = false
		s.wake.Broadcast()
		c.touched[i] = nil
	}
	c.touched = c.touched[:0]
}

// wakeRoomWaiters wakes the streams that wait for room in the queue or the connection's window. c.mu is held.
func (c *conn) wakeRoomWaiters() {
	for i, s := range c.roomWaiters {
		s.waitsForRoom = false
		s.wake.Broadcast()
		c.roomWaiters[i] = nil
	}
	c.roomWaiters = c.roomWaiters[:0]
}

// add begins a stream. c.mu is held.
func (c *conn) add(s *stream, id uint32) {
	s.c, s.id, s.out, s.length = c, id, c.peerWindow, -1
	s.wake.L = &c.mu
	s.window = inflow{size: int64(c.window), avail: int64(c.window)}
	c.streams[id] = s
}

// remove ends what the connection knows of a stream. c.mu is held.
func (c *conn) remove(s *stream) {
	if s.gone {
		return
	}
	s.gone = true
	delete(c.streams, s.id)
	c.recent.note(s.id, endedRegularly)
	c.role.streamRemoved(s)
}

// reset ends a stream, and tells the peer. c.mu is held.
func (c *conn) reset(s *stream, code http2.ErrCode, err error) {
	if s.gone {
		return
	}
	c.control(func() error { return c.fr.WriteRSTStream(s.id, code) })
	s.fail(err)
	c.remove(s)
	c.recent.note(s.id, endedByUs)
}

// fail ends the connection, after what has been queued. It returns at once. c.mu is held.
func (c *conn) fail(err error) {
	if c.err != nil {
		return
	}
	_ = c.net.SetReadDeadline(time.Now())
	_ = c.net.SetWriteDeadline(time.Now().Add(closeTime))
	c.end(err)
}

// leave ends a connection that has no streams any more. What was said on the last ones may still be on its way to a slow peer, for
// much longer than it takes to hand it to the system. c.mu is held.
func (c *conn) leave() {
	if c.err != nil {
		return
	}
	c.output.linger = leaveQuiet
	_ = c.net.SetReadDeadline(time.Now().Add(leaveQuiet)) // for the reader, which is not cut off: a link would not be read again
	_ = c.net.SetWriteDeadline(time.Now().Add(leaveTime))
	c.end(errClosed)
}

func (c *conn) end(err error) {
	c.err = err
	defer c.output.close()
	for _, s := range c.streams {
		s.fail(err)
		s.gone = true
		s.wake.Broadcast()
		c.role.streamRemoved(s)
	}
	clear(c.streams)
	c.role.failed()
	c.wakeRoomWaiters()
}

// after calls f later, with c.mu held.
func (c *conn) after(wait time.Duration, f func()) *time.Timer {
	return time.AfterFunc(wait, func() {
		defer gateway.CatchPanic(c.Log, c.Stats, c.breakOff)
		c.mu.Lock()
		defer c.mu.Unlock()
		f()
		c.flush()
	})
}

// close ends the connection when what was queued has left.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(errClosed)
}

// read handles frames until the connection ends, and tells the peer why. Its error is the rule that the peer broke; nil: none.
func (c *conn) read() error {
	err := c.tryFrames()
	broke, broken := err.(violation)
	c.endReading(err)
	<-c.done
	c.in.free()
	if broken {
		return broke
	}
	return nil
}

// tryFrames makes an error of a panic.
func (c *conn) tryFrames() (err error) {
	defer gateway.CatchPanic(c.Log, c.Stats, func() { err = gateway.ErrPanicked })
	return c.readFrames()
}

// endReading ends the connection for the error that reading has ended with.
func (c *conn) endReading(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakeTouched()
	if broke, broken := err.(violation); broken && c.err == nil {
		_ = c.fr.WriteGoAway(c.last(), broke.code, []byte(broke.what))
		c.output.linger = calmTime
	}
	c.fail(c.role.why(err))
}

// breakOff ends the connection after a panic in code of its own, whose state nothing may rely on: what was queued is dropped.
func (c *conn) breakOff() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.breakOffLocked()
}

func (c *conn) breakOffLocked() {
	c.output.drop()
	c.fail(gateway.ErrPanicked)
	for _, s := range c.streams { // whatever the panic came between
		s.fail(gateway.ErrPanicked)
	}
	c.output.closed, c.output.sending = true, true
	c.output.startWriter()
	_ = c.net.SetDeadline(time.Now()) // ends a read or write that waits
}

// unlocked calls f, which reads or writes the connection below, without c.mu. A link codes what it carries there, so a panic is an
// error that ends the connection. c.mu is held again behind it.
func (c *conn) unlocked(f func() error) (err error) {
	c.mu.Unlock()
	defer c.mu.Lock()
	defer gateway.CatchPanic(c.Log, c.Stats, func() { err = gateway.ErrPanicked })
	return f()
}

// tlsState is nil without TLS.
func tlsState(c net.Conn) *tls.ConnectionState {
	if t, ok := c.(*tls.Conn); ok {
		state := t.ConnectionState()
		return &state
	}
	return nil
}

// maxStreamID is the number of a stream that nobody has reached.
const maxStreamID = math.MaxInt32

// discard reads what a peer still sends, so that closing the connection does not throw away what it has not read yet: the system
// does that when something comes that nobody reads.
func discard(c net.Conn, quiet time.Duration) {
	if err := gateway.CloseWrite(c); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return
	}
	buf := gateway.GetBuffer(readLeast)
	defer gateway.PutBuffer(buf)
	// A peer that goes on sending, and never pauses for as long as quiet, is cut off as late as one that leaveTime is
	// for, in proportion.
	end := time.Now().Add(leaveTime / leaveQuiet * quiet)
	for left := 1 << 20; left > 0 && time.Now().Before(end); {
		_ = c.SetReadDeadline(time.Now().Add(quiet))
		n, err := c.Read(buf[:cap(buf)])
		if left -= n; err != nil {
			return
		}
	}
}
