package http2

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

const (
	// frameBytes is the largest frame that is accepted or sent: with larger ones, streams would wait longer
	// for each other.
	frameBytes = 16 << 10
	// tableBytes is the size of both tables of header compression (RFC 9113, section 6.5.2).
	tableBytes = 4096
	// closeTimeout limits how long queued output may take to be written when the connection closes.
	closeTimeout = time.Second
	// violationLinger limits how long a peer that broke a rule is still read, so that it can read its GOAWAY.
	violationLinger = closeTimeout / 4
	// gracefulTimeout limits how long the last output may take when a connection ends without an error, and
	// gracefulLinger how long the peer may be silent meanwhile.
	gracefulTimeout = 30 * time.Second
	gracefulLinger  = time.Second
)

// role holds the methods that differ between the two ends of a connection. c.mu must be held for all but
// headers.
type role interface {
	headers(id uint32, end bool, b *block) error // called by the reading goroutine
	onPingAck(data [8]byte)
	streamRemoved(s *stream)      // it has ended in both directions, was reset, or ended with the connection
	failed()                      // the connection has ended, with or without streams
	requestError(err error) error // converts the error that ended the connection to the one that calls get
}

// clientRole has the methods of a connection's client end that a server lacks. They are called with c.mu held.
type clientRole interface {
	onGoAway(f *xhttp2.GoAwayFrame)
	onFirstSettings(f *xhttp2.SettingsFrame)   // called for the server's first settings, after each was applied
	applyClientSetting(s xhttp2.Setting) error // for settings without a common meaning
	admit()                                    // grants turns to waiting requests while there is room
}

// Faults holds the log and the counters for panics.
type Faults struct {
	Log   *slog.Logger   // nil: the default log
	Stats *gateway.Stats // nil: nothing is counted
}

// conn is the part of a connection that both ends have in common.
type conn struct {
	Faults
	net        net.Conn
	role       role
	clientSide clientRole    // nil: this is a server's end
	done       chan struct{} // closed when net is

	// Used by the reading goroutine.
	in              *input
	fr              *xhttp2.Framer // writes into output, guarded by mu
	dec             *hpack.Decoder
	block           block
	gotFirstFrame   bool          // the peer's first frame has come
	headerTimeout   time.Duration // config.headerTimeout
	deadlineSet     bool          // a read deadline is set for the frame or header block that has begun
	settingsApplied bool          // the peer's first SETTINGS were applied
	emptyFrames     int           // consecutive DATA frames without data
	window          int           // receive window of a stream in bytes
	frameBytes      int           // largest frame in bytes, in both directions
	unackedSettings int           // SETTINGS frames that the peer has not acknowledged

	mu          sync.Mutex
	err         error // why the connection has ended; nil: it has not
	streams     map[uint32]*stream
	next        uint32          // lowest number that no stream has used yet
	lastStream  uint32          // highest stream number that is accepted, lowered by a drain
	touched     []*stream       // streams for beforeRead to wake
	newCalls    []*serverStream // calls for beforeRead to start
	roomWaiters []*stream       // streams waiting for room in output or sendWindow
	recent      endedStreams
	inflow      inflow
	memory      *memory.Account // ServerConfig.Memory
	lent        int64           // bytes of the window that memory has paid for
	output      output

	sendWindow    int64
	peerWindow    int64 // initial send window of a stream in bytes
	peerMaxFrame  int
	peerMaxHeader int64 // bytes of a header list
	enc           *hpack.Encoder
	encoded       bytes.Buffer
	outNames      names
}

// config holds the configuration that both ends share.
type config struct {
	Faults
	window    int // receive window of a stream in bytes
	maxHeader int
	frame     int    // largest frame in bytes, in both directions; 0: frameBytes
	ahead     []byte // bytes that were already read
	// headerTimeout limits the time for a header block, or a frame other than DATA; 0: no limit.
	headerTimeout time.Duration
}

func (c *conn) init(n net.Conn, r role, cfg config) {
	c.net, c.role, c.Faults = n, r, cfg.Faults
	c.done = make(chan struct{})
	c.in = newInput(n, cfg.ahead)
	c.in.beforeRead = c.beforeRead
	c.in.onPartialFrame = c.setHeaderDeadline
	c.headerTimeout = cfg.headerTimeout
	c.fr = xhttp2.NewFramer(&c.output, c.in)
	c.fr.SetReuseFrames()
	c.frameBytes = cmp.Or(cfg.frame, frameBytes)
	c.fr.SetMaxReadFrameSize(uint32(c.frameBytes))
	c.block.limit, c.block.maxEncoded = cfg.maxHeader, 2*cfg.maxHeader+frameBytes
	c.dec = hpack.NewDecoder(tableBytes, c.block.add)
	c.dec.SetMaxStringLength(c.block.maxEncoded) // longer ones would end the connection, and not only their stream
	c.block.dec = c.dec
	c.streams, c.next, c.lastStream = map[uint32]*stream{}, 1, maxStreamID
	c.window = cfg.window
	c.inflow = inflow{size: initialWindow, avail: initialWindow}
	c.sendWindow, c.peerWindow, c.peerMaxFrame = initialWindow, initialWindow, 16<<10
	c.enc = hpack.NewEncoder(&c.encoded)
	c.output.init(c)
}

// widen enlarges the connection's receive window to size. c.mu must be held.
func (c *conn) widen(size int) {
	if more := int64(size) - c.inflow.size; more > 0 {
		c.inflow.size += more
		c.inflow.avail += more
		_ = c.fr.WriteWindowUpdate(0, uint32(more))
	}
}

// isIdle reports whether a stream was never opened (RFC 9113, section 5.1). Even numbers are for the server,
// which opens no streams.
func (c *conn) isIdle(id uint32) bool { return id >= c.next || id%2 == 0 }

// lastAccepted returns the peer's highest accepted stream, for GOAWAY (section 6.8).
func (c *conn) lastAccepted() uint32 {
	if c.clientSide != nil {
		return 0
	}
	return min(c.next-1, c.lastStream)
}

// beforeRead acts on all frames of the last read before the reader waits for more: it wakes the streams they
// concern, starts handlers and writes queued frames.
func (c *conn) beforeRead() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakeTouched()
	for i, call := range c.newCalls {
		c.newCalls[i] = nil
		call.server.start(call)
	}
	c.newCalls = c.newCalls[:0]
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

// wakeRoomWaiters wakes the streams that wait for room in the queue or the connection's window. c.mu must be
// held.
func (c *conn) wakeRoomWaiters() {
	for i, s := range c.roomWaiters {
		s.waitsForRoom = false
		s.wake.Broadcast()
		c.roomWaiters[i] = nil
	}
	c.roomWaiters = c.roomWaiters[:0]
}

// add begins a stream. c.mu must be held.
func (c *conn) add(s *stream, id uint32) {
	s.c, s.id, s.sendWindow, s.length = c, id, c.peerWindow, -1
	s.wake.L = &c.mu
	s.window = inflow{size: int64(c.window), avail: int64(c.window)}
	c.streams[id] = s
}

// remove removes a stream from the connection. c.mu must be held.
func (c *conn) remove(s *stream) {
	if s.gone {
		return
	}
	s.gone = true
	delete(c.streams, s.id)
	c.recent.record(s.id, endedNormally)
	c.role.streamRemoved(s)
}

// reset ends a stream and queues RST_STREAM. c.mu must be held.
func (c *conn) reset(s *stream, code xhttp2.ErrCode, err error) {
	if s.gone {
		return
	}
	c.control(func() error { return c.fr.WriteRSTStream(s.id, code) })
	s.fail(err)
	c.remove(s)
	c.recent.record(s.id, resetLocally)
}

// fail ends the connection with err, after queued output was written. It returns at once. c.mu must be held.
func (c *conn) fail(err error) {
	if c.err != nil {
		return
	}
	_ = c.net.SetReadDeadline(time.Now())
	_ = c.net.SetWriteDeadline(time.Now().Add(closeTimeout))
	c.end(err)
}

// closeGracefully ends a connection that has no more streams. Its last output may still be on its way to a
// slow peer, for much longer than it takes to hand it to the system. c.mu must be held.
func (c *conn) closeGracefully() {
	if c.err != nil {
		return
	}
	c.output.linger = gracefulLinger
	// The deadline leaves the reader time: a link whose read has failed would not be read again.
	_ = c.net.SetReadDeadline(time.Now().Add(gracefulLinger))
	_ = c.net.SetWriteDeadline(time.Now().Add(gracefulTimeout))
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

// after calls f after wait, with c.mu held.
func (c *conn) after(wait time.Duration, f func()) *time.Timer {
	return time.AfterFunc(wait, func() {
		defer gateway.CatchPanic(c.Log, c.Stats, c.abort)
		c.mu.Lock()
		defer c.mu.Unlock()
		f()
		c.flush()
	})
}

// close ends the connection after queued output was written.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(errClosed)
}

// read handles frames until the connection ends, and sends the peer a GOAWAY with the reason. It returns the
// protocol violation by the peer that ended the connection, or nil.
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

// tryFrames is readFrames, but returns gateway.ErrPanicked for a panic.
func (c *conn) tryFrames() (err error) {
	defer gateway.CatchPanic(c.Log, c.Stats, func() { err = gateway.ErrPanicked })
	return c.readFrames()
}

// endReading ends the connection with the error that ended reading.
func (c *conn) endReading(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wakeTouched()
	if broke, broken := err.(violation); broken && c.err == nil {
		_ = c.fr.WriteGoAway(c.lastAccepted(), broke.code, []byte(broke.what))
		c.output.linger = violationLinger
	}
	c.fail(c.role.requestError(err))
}

// abort ends the connection after a panic in this package. The state can't be relied on, so queued output
// is dropped.
func (c *conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abortLocked()
}

func (c *conn) abortLocked() {
	c.output.drop()
	c.fail(gateway.ErrPanicked)
	for _, s := range c.streams { // the panic may have interrupted an update of any of them
		s.fail(gateway.ErrPanicked)
	}
	c.output.closed, c.output.sending = true, true
	c.output.startWriter()
	_ = c.net.SetDeadline(time.Now()) // unblocks a read or write
}

// unlocked calls f, which reads or writes the underlying connection, with c.mu released, and acquires c.mu
// again. A link compresses what it carries there, so a panic is turned into an error, which ends the
// connection.
func (c *conn) unlocked(f func() error) (err error) {
	c.mu.Unlock()
	defer c.mu.Lock()
	defer gateway.CatchPanic(c.Log, c.Stats, func() { err = gateway.ErrPanicked })
	return f()
}

// tlsState returns the TLS state of c, or nil without TLS.
func tlsState(c net.Conn) *tls.ConnectionState {
	if t, ok := c.(*tls.Conn); ok {
		state := t.ConnectionState()
		return &state
	}
	return nil
}

// maxStreamID is the highest number of a stream.
const maxStreamID = math.MaxInt32

// discard closes c for writing and reads what the peer still sends, up to 1 MiB. If unread data arrived at a
// closed connection, the system would discard output that the peer has not read yet.
func discard(c net.Conn, quiet time.Duration) {
	if err := gateway.CloseWrite(c); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return
	}
	buf := memory.GetBuffer(minReadBuffer)
	defer memory.PutBuffer(buf)
	// A peer that keeps sending, without a pause as long as quiet, is cut off after
	// gracefulTimeout/gracefulLinger times quiet.
	end := time.Now().Add(gracefulTimeout / gracefulLinger * quiet)
	for left := 1 << 20; left > 0 && time.Now().Before(end); {
		_ = c.SetReadDeadline(time.Now().Add(quiet))
		n, err := c.Read(buf[:cap(buf)])
		if left -= n; err != nil {
			return
		}
	}
}
