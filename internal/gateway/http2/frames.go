package http2

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

const (
	// maxSettings limits the settings in a frame. No peer has reason to send that many.
	maxSettings = 100
	// maxEmpty limits the consecutive DATA frames with neither data nor END_STREAM.
	maxEmpty = 1000
	// minContinuations is the number of CONTINUATION frames that a header block may always have.
	minContinuations = 128
)

// readFrame returns the next frame with its header. An xhttp2.StreamError ends a stream; other errors end the
// connection.
func (c *conn) readFrame() (xhttp2.FrameHeader, xhttp2.Frame, error) {
	h, err := c.fr.ReadFrameHeader()
	var f xhttp2.Frame
	if err == nil {
		if c.in.inData = h.Type == xhttp2.FrameData; c.in.inData && c.deadlineSet {
			_ = c.clearHeaderDeadline(nil)
		}
		f, err = c.fr.ReadFrameForHeader(h)
	}
	if err == nil {
		return h, f, nil
	}
	var reset xhttp2.StreamError
	var broke xhttp2.ConnectionError
	switch {
	case errors.As(err, &reset):
		if h.Type == xhttp2.FrameHeaders || h.Type == xhttp2.FrameContinuation { // the header tables may no longer match
			err = violation{reset.Code, "invalid HEADERS frame"}
		}
	case errors.As(err, &broke):
		err = violation{xhttp2.ErrCode(broke), "invalid frame"}
		if detail := c.fr.ErrorDetail(); detail != nil {
			err = violation{xhttp2.ErrCode(broke), detail.Error()}
		}
	case errors.Is(err, xhttp2.ErrFrameTooLarge):
		err = violation{xhttp2.ErrCodeFrameSize, "a frame is too large"}
	}
	return h, nil, err
}

// readFrames handles frames until an error ends the connection.
func (c *conn) readFrames() error {
	for {
		c.in.partial, c.in.inData = false, false
		h, f, err := c.readFrame()
		if err == nil {
			err = c.handle(h, f)
		}
		if c.deadlineSet {
			err = c.clearHeaderDeadline(err)
		}
		if err != nil {
			err = c.resetFor(err)
		}
		if err != nil {
			return err
		}
	}
}

// resetFor resets the stream of an xhttp2.StreamError. It returns errors that end the connection.
func (c *conn) resetFor(broke error) error {
	var err xhttp2.StreamError
	if !errors.As(broke, &err) {
		return broke
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[err.StreamID]; s != nil {
		c.reset(s, err.Code, err)
		return nil
	}
	if c.isIdle(err.StreamID) {
		return protocolError("invalid frame on an idle stream")
	}
	c.recent.recordReset(err.StreamID)
	c.control(func() error { return c.fr.WriteRSTStream(err.StreamID, err.Code) })
	return nil
}

// handle handles a frame, which must not be used afterwards.
func (c *conn) handle(h xhttp2.FrameHeader, f xhttp2.Frame) error {
	if !c.gotFirstFrame {
		if s, ok := f.(*xhttp2.SettingsFrame); !ok || s.IsAck() {
			return protocolError("the first frame is not SETTINGS") // section 3.4
		}
		c.onFirstFrame()
	}
	if f, ok := f.(*xhttp2.HeadersFrame); ok {
		// Reading the rest of the block invalidates f.
		end, self := f.StreamEnded(), f.HasPriority() && f.Priority.StreamDep == h.StreamID
		if err := c.readBlock(f); err != nil {
			return err
		}
		if self {
			return malformed(h.StreamID, "a stream depends on itself")
		}
		return c.role.headers(h.StreamID, end, &c.block)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil { // f was read ahead
		return c.err
	}
	switch f := f.(type) {
	case *xhttp2.DataFrame:
		return c.onData(f)
	case *xhttp2.WindowUpdateFrame:
		return c.onWindow(f)
	case *xhttp2.RSTStreamFrame:
		return c.onReset(f)
	case *xhttp2.SettingsFrame:
		return c.onSettings(f)
	case *xhttp2.PingFrame:
		if f.IsAck() {
			c.role.onPingAck(f.Data)
		} else {
			c.control(func() error { return c.fr.WritePing(true, f.Data) })
		}
	case *xhttp2.GoAwayFrame:
		if c.clientSide != nil { // a client closes the connection itself
			c.clientSide.onGoAway(f)
		}
	case *xhttp2.PriorityFrame: // section 5.3.1 of RFC 7540; priorities are ignored otherwise
		if f.StreamDep == f.StreamID {
			return malformed(f.StreamID, "a stream depends on itself")
		}
	case *xhttp2.PushPromiseFrame:
		return protocolError("PUSH_PROMISE although pushes are disabled")
	}
	return nil // frames of unknown types are ignored (section 4.1)
}

// readBlock reads and decodes the header block that begins with f (section 4.3). The Framer ensures that no
// other frame comes in between.
func (c *conn) readBlock(f *xhttp2.HeadersFrame) error {
	b := &c.block
	clear(b.fields)
	b.fields, b.pseudo, b.remaining, b.tooLong, b.bad, b.connField = b.fields[:0], 0, b.limit, false, "", ""
	b.dec.SetEmitEnabled(true)
	fragment, ended := f.HeaderBlockFragment(), f.HeadersEnded()
	size, frames := 0, 0
	for {
		if size += len(fragment); size > b.maxEncoded || frames > max(minContinuations, b.limit/512) {
			return enhanceYourCalm("the header block is too long or has too many frames")
		}
		if _, err := b.dec.Write(fragment); err != nil {
			return violation{xhttp2.ErrCodeCompression, err.Error()}
		}
		if ended {
			break
		}
		_, next, err := c.readFrame()
		if err != nil {
			return err
		}
		more, ok := next.(*xhttp2.ContinuationFrame)
		if !ok {
			return protocolError("a header block is interrupted")
		}
		fragment, ended = more.HeaderBlockFragment(), more.HeadersEnded()
		frames++
	}
	if err := b.dec.Close(); err != nil {
		return violation{xhttp2.ErrCodeCompression, err.Error()}
	}
	return nil
}

// onFirstFrame records that the peer's first frame has arrived, and clears its deadline.
func (c *conn) onFirstFrame() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gotFirstFrame = true; c.err == nil {
		_ = c.net.SetReadDeadline(time.Time{})
	}
}

// setHeaderDeadline limits the time for the rest of a frame or header block to headerTimeout. The first frame
// has a limit of its own.
func (c *conn) setHeaderDeadline() {
	if c.headerTimeout == 0 || c.deadlineSet || !c.gotFirstFrame {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.deadlineSet = true
		_ = c.net.SetReadDeadline(time.Now().Add(c.headerTimeout))
	}
}

// clearHeaderDeadline clears the deadline set by setHeaderDeadline, unless the connection is closing and has
// another one. err is the error of reading or handling; clearHeaderDeadline returns the error to report
// instead.
func (c *conn) clearHeaderDeadline(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadlineSet = false
	switch {
	case c.err != nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		return enhanceYourCalm("a header block or a frame was not completed in time")
	default:
		_ = c.net.SetReadDeadline(time.Time{})
	}
	return err
}

// onData handles DATA (section 6.1). Padding counts against the windows.
func (c *conn) onData(f *xhttp2.DataFrame) error {
	data, size, end := f.Data(), int64(f.Length), f.StreamEnded()
	if !c.inflow.take(size) {
		return violation{xhttp2.ErrCodeFlowControl, "DATA exceeds the connection's window"}
	}
	c.emptyFrames++
	if len(data) > 0 || end {
		c.emptyFrames = 0
	}
	if c.emptyFrames > maxEmpty {
		return enhanceYourCalm("too many DATA frames without data")
	}
	s := c.streams[f.StreamID]
	var wrong error
	switch {
	case s == nil && c.isIdle(f.StreamID):
		return protocolError("DATA on an idle stream")
	case s == nil && c.recent.kindOf(f.StreamID) != resetLocally && f.StreamID <= c.lastStream:
		wrong = streamError(f.StreamID, xhttp2.ErrCodeStreamClosed, "the stream is closed")
	case s == nil:
	case s.remoteEnd:
		wrong = streamError(s.id, xhttp2.ErrCodeStreamClosed, "DATA after the end of the stream")
	case !s.headersReceived:
		wrong = malformed(s.id, "data before headers") // section 8.1
	case !s.window.take(size):
		wrong = streamError(s.id, xhttp2.ErrCodeFlowControl, "DATA exceeds the stream's window")
	}
	if s == nil || wrong != nil {
		c.restoreWindow(nil, size)
		return wrong
	}
	if s.length >= 0 {
		more := int64(len(data)) > s.length
		if more {
			data = data[:s.length]
		}
		if s.length -= int64(len(data)); more || end && s.length > 0 { // section 8.1.1
			wrong, end = malformed(s.id, "the body's length differs from content-length"), false
		}
	}
	if s.inErr == nil {
		s.in.write(data)
		size -= int64(len(data)) // readers give it back to the windows
	}
	if len(data) > 0 {
		s.bodyBegun.Store(true)
		s.touch()
	}
	if end {
		s.endRemote()
	}
	c.restoreWindow(s, size)
	return wrong
}

// onWindow handles WINDOW_UPDATE (section 6.9). The Framer refuses increments of zero.
func (c *conn) onWindow(f *xhttp2.WindowUpdateFrame) error {
	if f.StreamID == 0 {
		if c.sendWindow += int64(f.Increment); c.sendWindow > maxWindow {
			return violation{xhttp2.ErrCodeFlowControl, "the connection's window is too large"}
		}
		c.wakeRoomWaiters()
		return nil
	}
	s := c.streams[f.StreamID]
	switch {
	case s != nil:
		if s.sendWindow += int64(f.Increment); s.sendWindow > maxWindow {
			return streamError(s.id, xhttp2.ErrCodeFlowControl, "the window is too large")
		}
		s.touch()
	case c.isIdle(f.StreamID):
		return protocolError("WINDOW_UPDATE on an idle stream")
	}
	return nil
}

func (c *conn) onReset(f *xhttp2.RSTStreamFrame) error {
	s := c.streams[f.StreamID]
	switch {
	case s != nil:
		s.fail(xhttp2.StreamError{StreamID: s.id, Code: f.ErrCode, Cause: errFromPeer})
		c.remove(s)
	case c.isIdle(f.StreamID):
		return protocolError("RST_STREAM on an idle stream")
	}
	return nil
}

var errFromPeer = errors.New("received from peer")

// onSettings handles SETTINGS (section 6.5).
func (c *conn) onSettings(f *xhttp2.SettingsFrame) error {
	if f.IsAck() {
		if c.unackedSettings--; c.unackedSettings < 0 {
			return protocolError("acknowledgement of SETTINGS that were not sent")
		}
		return nil
	}
	if f.NumSettings() > maxSettings {
		return protocolError("too many settings")
	}
	window := c.peerWindow // the last value counts, so that the streams are updated once
	for i := range f.NumSettings() {
		s := f.Setting(i)
		err := s.Valid()
		switch {
		case err != nil:
		case s.ID == xhttp2.SettingInitialWindowSize:
			window = int64(s.Val)
		default:
			err = c.applySetting(s)
		}
		var broke xhttp2.ConnectionError
		if errors.As(err, &broke) {
			err = violation{xhttp2.ErrCode(broke), "invalid setting"}
		}
		if err != nil {
			return err
		}
	}
	if err := c.setWindow(window); err != nil {
		return err
	}
	if !c.settingsApplied && c.clientSide != nil {
		c.clientSide.onFirstSettings(f)
	}
	c.settingsApplied = true
	c.control(c.fr.WriteSettingsAck)
	return nil
}

func (c *conn) applySetting(s xhttp2.Setting) error {
	switch s.ID {
	case xhttp2.SettingHeaderTableSize:
		c.enc.SetMaxDynamicTableSize(min(s.Val, tableBytes))
	case xhttp2.SettingMaxFrameSize:
		c.peerMaxFrame = int(s.Val)
	case xhttp2.SettingMaxHeaderListSize:
		c.peerMaxHeader = int64(s.Val)
	default:
		if c.clientSide != nil {
			return c.clientSide.applyClientSetting(s)
		}
	}
	return nil
}

// setWindow sets the peer's initial window and adjusts the windows of open streams (section 6.9.2).
func (c *conn) setWindow(size int64) error {
	more := size - c.peerWindow
	if c.peerWindow = size; more == 0 {
		return nil
	}
	for _, s := range c.streams {
		if s.sendWindow += more; s.sendWindow > maxWindow {
			return violation{xhttp2.ErrCodeFlowControl, "a stream's window is too large"}
		}
		s.touch()
	}
	return nil
}

const (
	minReadBuffer = 4 << 10 // smallest buffer for reading ahead
	maxReadBuffer = 32 << 10
	maxSmallReads = 16 // consecutive reads that fit a small buffer before a larger one is given back
)

// epoch is the origin of the times that are stored as nanoseconds.
var epoch = time.Now()

// input reads ahead. All but silence belongs to the reading goroutine.
type input struct {
	conn       io.Reader
	beforeRead func() // called before a read that may block
	// onPartialFrame is called before a blocking read for the rest of a frame other than DATA, or of a header
	// block.
	onPartialFrame func()
	partial        bool         // part of a frame or header block has been read
	inData         bool         // the current frame is DATA
	lastRead       atomic.Int64 // time of the last read, in nanoseconds since epoch

	buf        []byte // with its full length
	r, w       int
	smallReads int
}

func newInput(c net.Conn, ahead []byte) *input {
	in := &input{conn: gateway.NewDirectReader(c)}
	in.buf = memory.GetBuffer(max(minReadBuffer, len(ahead)))
	in.buf = in.buf[:cap(in.buf)]
	in.w = copy(in.buf, ahead)
	in.lastRead.Store(int64(time.Since(epoch)))
	return in
}

// silence returns the time since the last byte arrived.
func (in *input) silence() time.Duration {
	return time.Since(epoch) - time.Duration(in.lastRead.Load())
}

func (in *input) Read(p []byte) (int, error) {
	if in.r == in.w {
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.r:in.w])
	in.r += n
	in.partial = true
	return n, nil
}

func (in *input) fill() error {
	in.beforeRead()
	if in.partial && !in.inData {
		in.onPartialFrame()
	}
	in.r, in.w = 0, 0
	n, err := in.conn.Read(in.buf)
	if n == 0 {
		return err
	}
	in.lastRead.Store(int64(time.Since(epoch)))
	in.w = n
	if n == len(in.buf) || len(in.buf) > minReadBuffer {
		in.resize(n)
	}
	return nil
}

// resize enlarges the buffer after a read of n bytes that filled it, and shrinks it after maxSmallReads
// consecutive reads that would have fit a small one.
func (in *input) resize(n int) {
	size := len(in.buf)
	switch {
	case n == size && size < maxReadBuffer:
		in.smallReads = 0
		size *= 4
	case n > minReadBuffer:
		in.smallReads = 0
		return
	default:
		if in.smallReads++; in.smallReads < maxSmallReads {
			return
		}
		size = minReadBuffer
	}
	next := memory.GetBuffer(min(size, maxReadBuffer))
	next = next[:cap(next)]
	if in.w > len(next) {
		memory.PutBuffer(next)
		return
	}
	copy(next, in.buf[:in.w])
	memory.PutBuffer(in.buf)
	in.buf = next
}

func (in *input) free() {
	memory.PutBuffer(in.buf)
	in.buf, in.r, in.w = nil, 0, 0
}
