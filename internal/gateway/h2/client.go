package h2

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
)

const (
	// fewStreams limits concurrent requests until the server has sent its limit, and manyStreams if it sends
	// none.
	fewStreams  = 100
	manyStreams = 1000
	// debugMost limits the bytes that are kept of a GOAWAY's debug data.
	debugMost = 200
)

// ClientConfig configures a ClientConn.
type ClientConfig struct {
	Window     int // receive window of a stream in bytes
	ConnWindow int // of the connection
	MaxHeader  int // bytes of a header list, as HTTP/2 counts them

	ContinueTimeout time.Duration // for 100 (Continue), if the request expects it; 0: none

	Faults
}

// ClientConn is the client's end of a connection.
type ClientConn struct {
	conn
	continueTimeout time.Duration

	// Guarded by mu.
	most    int  // the server's limit of concurrent streams
	spoke   bool // the server's settings have arrived
	used    bool // retired: no more requests begin
	away    *GoAwayError
	queue   []chan struct{} // waiting requests; each channel is closed when its turn has come
	granted int             // turns that were given and not taken yet
	pings   map[[8]byte]chan struct{}
	pinged  uint64
	pacing  pacing
	onRoom  func() // called in a goroutine when there may be room for more requests; may be nil
}

// NewClientConn returns the client end of n and starts its reader. The caller must close it.
func NewClientConn(n net.Conn, cfg ClientConfig) *ClientConn {
	c := &ClientConn{continueTimeout: cfg.ContinueTimeout, most: fewStreams, pings: map[[8]byte]chan struct{}{}}
	c.clientSide = c
	c.init(n, c, config{Faults: cfg.Faults, window: cfg.Window, maxHeader: cfg.MaxHeader})
	c.greet(cfg)
	go c.run()
	return c
}

// run reads until the connection ends, which ends its requests.
func (c *ClientConn) run() {
	defer gateway.CatchPanic(c.Log, c.Stats, c.breakOff)
	_ = c.read()
}

// greet queues the preface and the client's settings (RFC 9113, section 3.4).
func (c *ClientConn) greet(cfg ClientConfig) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(&c.output, http2.ClientPreface)
	_ = c.fr.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(cfg.Window)},
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: frameBytes},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(cfg.MaxHeader)},
	)
	c.settings++
	c.widen(cfg.ConnWindow)
	c.flush()
}

// Done returns a channel that is closed when the connection is.
func (c *ClientConn) Done() <-chan struct{} { return c.done }

// Spoke reports whether the server's first settings have arrived.
func (c *ClientConn) Spoke() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spoke
}

// Ended reports whether the connection has ended. Its requests may still be running.
func (c *ClientConn) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil
}

// takes returns how many concurrent requests the server accepts. usable reports whether a new request may
// begin or queue.
func (c *ClientConn) takes() (most int, usable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most - c.pacing.count, c.usable()
}

// endedByError reports whether the server has sent a GOAWAY with an error code.
func (c *ClientConn) endedByError() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away != nil && c.away.Code != http2.ErrCodeNo
}

// presume limits the requests to a server that has not sent its limit to what the server accepts on another
// connection.
func (c *ClientConn) presume(other *ClientConn) {
	if !other.Spoke() {
		return
	}
	most, _ := other.takes()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.spoke {
		c.most = min(c.most, most)
	}
}

// whenRoom lets f be called, in a goroutine, when the connection may accept more requests for another reason
// than the end of one.
func (c *ClientConn) whenRoom(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onRoom = f
}

func (c *ClientConn) tellRoom() {
	if f := c.onRoom; f != nil {
		go func() {
			defer gateway.CatchPanic(c.Log, c.Stats, c.Close)
			f()
		}()
	}
}

func (c *ClientConn) usable() bool {
	return c.err == nil && !c.used && c.away == nil && c.next < maxStreamID
}

// SetDoNotReuse refuses new requests, and closes the connection after the last one.
func (c *ClientConn) SetDoNotReuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire()
}

// retire refuses new requests. c.mu must be held.
func (c *ClientConn) retire() {
	c.used = true
	c.unqueue()
}

// Close ends the connection and all its requests.
func (c *ClientConn) Close() { c.close() }

// Shutdown sends GOAWAY, and waits until the last request has ended and the connection is closed. It returns
// ctx's error if that comes first.
func (c *ClientConn) Shutdown(ctx context.Context) error {
	c.sayGoAway()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *ClientConn) sayGoAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire()
	if c.err == nil {
		_ = c.fr.WriteGoAway(0, http2.ErrCodeNo, nil)
	}
	c.endUnused()
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
	c.pinged++
	binary.BigEndian.PutUint64(data[:], c.pinged)
	c.pings[data] = answered
	c.control(func() error { return c.fr.WritePing(false, data) })
	c.flush()
	return data, answered, nil
}

func (c *ClientConn) ponged(data [8]byte) {
	if answered := c.pings[data]; answered != nil {
		close(answered)
		delete(c.pings, data)
	}
}

// await waits until a request may begin: for a stream, and for room for its headers. c.mu must be held; it is
// released while waiting.
func (c *ClientConn) await(ctx context.Context) error {
	if !c.usable() {
		return ErrUnusable
	}
	if len(c.queue) == 0 && c.free() > 0 {
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

// free returns how many requests may begin now.
func (c *ClientConn) free() int {
	if c.output.waiting() >= outMost {
		return 0
	}
	return c.most - len(c.streams) - c.granted
}

// admit gives turns to waiting requests as long as there is room.
func (c *ClientConn) admit() {
	for len(c.queue) > 0 && c.free() > 0 {
		c.granted++
		close(c.queue[0])
		c.queue = slices.Delete(c.queue, 0, 1)
	}
}

// unqueue wakes all waiting requests, which then find the connection unusable.
func (c *ClientConn) unqueue() {
	for _, turn := range c.queue {
		close(turn)
	}
	c.queue = nil
	c.granted = 0
}

func (c *ClientConn) setting(s http2.Setting) error {
	switch s.ID {
	case http2.SettingMaxConcurrentStreams:
		c.most = int(min(s.Val, maxStreamID))
		c.admit()
		c.tellRoom()
	case http2.SettingEnablePush: // section 6.5.2
		if s.Val != 0 {
			return protocol("a server that allows pushes")
		}
	}
	return nil
}

func (c *ClientConn) greeted(f *http2.SettingsFrame) {
	c.spoke = true
	if _, says := f.Value(http2.SettingMaxConcurrentStreams); !says {
		c.most = manyStreams
		c.tellRoom()
	}
}

// wentAway handles GOAWAY (section 6.8). Requests beyond the last that the server has seen may be sent again.
func (c *ClientConn) wentAway(f *http2.GoAwayFrame) {
	debug := f.DebugData()
	c.away = &GoAwayError{f.ErrCode, string(debug[:min(len(debug), debugMost)])}
	for id, s := range c.streams {
		if id <= f.LastStreamID {
			continue
		}
		if id == 1 && f.ErrCode != http2.ErrCodeNo { // a new connection would fail in the same way
			s.fail(*c.away)
		} else {
			s.fail(ErrGoAway)
		}
		c.remove(s)
	}
	c.unqueue()
	c.endUnused()
}

func (c *ClientConn) streamRemoved(s *stream) {
	if a, ok := s.user.(*sentRequest); ok {
		a.unlisten()
	}
	if s.abandoned {
		c.pacing.count--
		c.tellRoom()
	}
	if c.err != nil {
		return
	}
	c.admit()
	c.endUnused()
}

func (c *ClientConn) failed() { c.unqueue() }

// endUnused closes a connection that accepts no more requests once it has none.
func (c *ClientConn) endUnused() {
	if (c.used || c.away != nil) && len(c.streams) == 0 {
		c.fail(errClosed)
	}
}

func (c *ClientConn) why(err error) error {
	switch {
	case c.away != nil && c.away.Code != http2.ErrCodeNo:
		return *c.away
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// Silence returns the time since the last byte arrived.
func (c *ClientConn) Silence() time.Duration { return c.in.silence() }
