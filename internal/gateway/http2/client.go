package http2

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
)

const (
	// initialMaxStreams limits concurrent requests until the server has sent its limit, and defaultMaxStreams
	// if it sends none.
	initialMaxStreams = 100
	defaultMaxStreams = 1000
	// maxDebugBytes limits the bytes that are kept of a GOAWAY's debug data.
	maxDebugBytes = 200
)

// ClientConfig configures a ClientConn.
type ClientConfig struct {
	Window     int // receive window of a stream in bytes
	ConnWindow int // receive window of the connection in bytes
	MaxHeader  int // bytes of a header list, as HTTP/2 counts them
	MaxFrame   int // bytes of a frame, in both directions; 0: 16 KiB

	ContinueTimeout time.Duration // for 100 (Continue), if the request expects it; 0: none

	Faults
}

// ClientConn is the client's end of a connection.
type ClientConn struct {
	conn
	continueTimeout time.Duration

	// Guarded by mu.
	maxStreams       int  // the server's limit of concurrent streams
	settingsReceived bool // the server's settings have arrived
	retired          bool // no more requests begin
	goAway           *GoAwayError
	queue            []chan struct{} // waiting requests; each channel is closed when its turn has come
	granted          int             // turns that were given and not taken yet
	pings            map[[8]byte]chan struct{}
	pingCount        uint64
	pacing           pacing
	onCapacity       func() // called in a goroutine when there may be room for more requests; may be nil
}

// NewClientConn returns the client end of n and starts its reader. The caller must close it.
func NewClientConn(n net.Conn, cfg ClientConfig) *ClientConn {
	c := &ClientConn{continueTimeout: cfg.ContinueTimeout, maxStreams: initialMaxStreams, pings: map[[8]byte]chan struct{}{}}
	c.clientSide = c
	c.init(n, c, config{Faults: cfg.Faults, window: cfg.Window, maxHeader: cfg.MaxHeader, frame: cfg.MaxFrame})
	c.sendPreface(cfg)
	go c.run()
	return c
}

// run reads until the connection ends, which ends its requests.
func (c *ClientConn) run() {
	defer gateway.CatchPanic(c.Log, c.Stats, c.abort)
	_ = c.read()
}

// sendPreface queues the preface and the client's settings (RFC 9113, section 3.4).
func (c *ClientConn) sendPreface(cfg ClientConfig) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(&c.output, xhttp2.ClientPreface)
	_ = c.fr.WriteSettings(
		xhttp2.Setting{ID: xhttp2.SettingEnablePush, Val: 0},
		xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: uint32(cfg.Window)},
		xhttp2.Setting{ID: xhttp2.SettingMaxFrameSize, Val: uint32(c.frameBytes)},
		xhttp2.Setting{ID: xhttp2.SettingMaxHeaderListSize, Val: uint32(cfg.MaxHeader)},
	)
	c.unackedSettings++
	c.widen(cfg.ConnWindow)
	c.flush()
}

// Done returns a channel that is closed when the connection is.
func (c *ClientConn) Done() <-chan struct{} { return c.done }

// HasSettings reports whether the server's first settings have arrived.
func (c *ClientConn) HasSettings() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settingsReceived
}

// Ended reports whether the connection has ended. Its requests may still be running.
func (c *ClientConn) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil
}

// streamLimit returns how many concurrent requests the server accepts. usable reports whether a new request may
// begin or queue.
func (c *ClientConn) streamLimit() (limit int, usable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.maxStreams - c.pacing.count, c.usable()
}

// endedByError reports whether the server has sent a GOAWAY with an error code.
func (c *ClientConn) endedByError() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.goAway != nil && c.goAway.Code != xhttp2.ErrCodeNo
}

// adoptStreamLimit limits the requests to a server that has not sent its limit to what the server accepts on
// another connection.
func (c *ClientConn) adoptStreamLimit(other *ClientConn) {
	if !other.HasSettings() {
		return
	}
	limit, _ := other.streamLimit()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.settingsReceived {
		c.maxStreams = min(c.maxStreams, limit)
	}
}

// setOnCapacity lets f be called, in a goroutine, when the connection may accept more requests for another
// reason than the end of one.
func (c *ClientConn) setOnCapacity(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onCapacity = f
}

func (c *ClientConn) notifyCapacity() {
	if f := c.onCapacity; f != nil {
		go func() {
			defer gateway.CatchPanic(c.Log, c.Stats, c.Close)
			f()
		}()
	}
}

func (c *ClientConn) usable() bool {
	return c.err == nil && !c.retired && c.goAway == nil && c.next < maxStreamID
}

// SetDoNotReuse refuses new requests, and closes the connection after the last one.
func (c *ClientConn) SetDoNotReuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire()
}

// retire refuses new requests. c.mu must be held.
func (c *ClientConn) retire() {
	c.retired = true
	c.failWaiting()
}

// Close ends the connection and all its requests.
func (c *ClientConn) Close() { c.close() }

// Shutdown sends GOAWAY, and waits until the last request has ended and the connection is closed. It returns
// ctx's error if that comes first.
func (c *ClientConn) Shutdown(ctx context.Context) error {
	c.sendGoAway()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *ClientConn) sendGoAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire()
	if c.err == nil {
		_ = c.fr.WriteGoAway(0, xhttp2.ErrCodeNo, nil)
	}
	c.closeIfUnused()
	c.flush()
}

// Ping sends a ping and waits for the answer.
func (c *ClientConn) Ping(ctx context.Context) error {
	data, answered, err := c.sendPing()
	if err != nil {
		return err
	}
	defer func() {
		c.mu.Lock()
		delete(c.pings, data)
		c.mu.Unlock()
	}()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.done:
		return errClosed
	}
}

func (c *ClientConn) sendPing() (data [8]byte, answered chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return data, nil, c.err
	}
	answered = make(chan struct{})
	c.pingCount++
	binary.BigEndian.PutUint64(data[:], c.pingCount)
	c.pings[data] = answered
	c.control(func() error { return c.fr.WritePing(false, data) })
	c.flush()
	return data, answered, nil
}

func (c *ClientConn) onPingAck(data [8]byte) {
	if answered := c.pings[data]; answered != nil {
		close(answered)
		delete(c.pings, data)
	}
}

// awaitTurn waits until a request may begin: for a stream, and for room for its headers. c.mu must be held;
// it is released while waiting.
func (c *ClientConn) awaitTurn(ctx context.Context) error {
	if !c.usable() {
		return ErrUnusable
	}
	if len(c.queue) == 0 && c.freeStreams() > 0 {
		return nil
	}
	turn := make(chan struct{})
	c.queue = append(c.queue, turn)
	c.flush()
	c.mu.Unlock()
	select {
	case <-turn:
	case <-ctx.Done():
	}
	c.mu.Lock()
	if i := slices.Index(c.queue, turn); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
		return ctx.Err()
	}
	if !c.usable() {
		return ErrUnusable
	}
	c.granted-- // this request takes its turn, or passes it on
	if err := ctx.Err(); err != nil {
		c.admit()
		return err
	}
	return nil
}

// freeStreams returns how many requests may begin now.
func (c *ClientConn) freeStreams() int {
	if c.output.queuedBytes() >= maxQueuedBytes {
		return 0
	}
	return c.maxStreams - len(c.streams) - c.granted
}

// admit gives turns to waiting requests as long as there is room.
func (c *ClientConn) admit() {
	for len(c.queue) > 0 && c.freeStreams() > 0 {
		c.granted++
		close(c.queue[0])
		c.queue = slices.Delete(c.queue, 0, 1)
	}
}

// failWaiting wakes all waiting requests, which then find the connection unusable.
func (c *ClientConn) failWaiting() {
	for _, turn := range c.queue {
		close(turn)
	}
	c.queue = nil
	c.granted = 0
}

func (c *ClientConn) applyClientSetting(s xhttp2.Setting) error {
	switch s.ID {
	case xhttp2.SettingMaxConcurrentStreams:
		c.maxStreams = int(min(s.Val, maxStreamID))
		c.admit()
		c.notifyCapacity()
	case xhttp2.SettingEnablePush: // section 6.5.2
		if s.Val != 0 {
			return protocolError("a server that allows pushes")
		}
	}
	return nil
}

func (c *ClientConn) onFirstSettings(f *xhttp2.SettingsFrame) {
	c.settingsReceived = true
	if _, says := f.Value(xhttp2.SettingMaxConcurrentStreams); !says {
		c.maxStreams = defaultMaxStreams
		c.notifyCapacity()
	}
}

// onGoAway handles GOAWAY (section 6.8). Requests beyond the last that the server has seen may be sent again.
func (c *ClientConn) onGoAway(f *xhttp2.GoAwayFrame) {
	debug := f.DebugData()
	c.goAway = &GoAwayError{f.ErrCode, string(debug[:min(len(debug), maxDebugBytes)])}
	for id, s := range c.streams {
		if id <= f.LastStreamID {
			continue
		}
		if id == 1 && f.ErrCode != xhttp2.ErrCodeNo { // a new connection would fail in the same way
			s.fail(*c.goAway)
		} else {
			s.fail(ErrGoAway)
		}
		c.remove(s)
	}
	c.failWaiting()
	c.closeIfUnused()
}

func (c *ClientConn) streamRemoved(s *stream) {
	if a, ok := s.user.(*clientStream); ok {
		a.unregister()
	}
	if s.abandoned {
		c.pacing.count--
		c.notifyCapacity()
	}
	if c.err != nil {
		return
	}
	c.admit()
	c.closeIfUnused()
}

func (c *ClientConn) failed() { c.failWaiting() }

// closeIfUnused closes a connection that accepts no more requests once it has none.
func (c *ClientConn) closeIfUnused() {
	if (c.retired || c.goAway != nil) && len(c.streams) == 0 {
		c.fail(errClosed)
	}
}

func (c *ClientConn) requestError(err error) error {
	switch {
	case c.goAway != nil && c.goAway.Code != xhttp2.ErrCodeNo:
		return *c.goAway
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// Silence returns the time since the last byte arrived.
func (c *ClientConn) Silence() time.Duration { return c.in.silence() }
