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
	// fewStreams is how many requests a server gets before it has said how many it takes, and manyStreams when it does not say.
	fewStreams  = 100
	manyStreams = 1000
	// debugMost is how much is kept of what a GOAWAY says.
	debugMost = 200
)

// ClientConfig is what a ClientConn is made of.
type ClientConfig struct {
	Window     int // bytes that a stream's sender may be ahead of its reader
	ConnWindow int // and all streams together
	MaxHeader  int // bytes of a header list, as HTTP/2 counts them

	ContinueTimeout time.Duration // that a body waits for 100 (Continue) where the request expects that; 0: it doesn't

	Faults
}

// ClientConn is the client's end of a connection.
type ClientConn struct {
	conn
	continueTimeout time.Duration

	// Guarded by mu.
	most    int  // streams that the server takes at a time
	spoke   bool // its settings have come
	used    bool // it takes no more requests
	away    *GoAwayError
	queue   []chan struct{} // requests that wait, each closed when its turn has come
	granted int             // turns that were given and not taken yet
	pings   map[[8]byte]chan struct{}
	pinged  uint64
	pacing  pacing
	onRoom  func() // is called in a goroutine when there may be room for more requests; nil: it isn't
}

// NewClientConn makes the end of a connection, which has to be closed.
func NewClientConn(n net.Conn, cfg ClientConfig) *ClientConn {
	c := &ClientConn{continueTimeout: cfg.ContinueTimeout, most: fewStreams, pings: map[[8]byte]chan struct{}{}}
	c.clientSide = c
	c.init(n, c, config{Faults: cfg.Faults, window: cfg.Window, maxHeader: cfg.MaxHeader})
	c.greet(cfg)
	go c.run()
	return c
}

// run reads until the connection ends, of which requests are told.
func (c *ClientConn) run() {
	defer gateway.CatchPanic(c.Log, c.Stats, c.breakOff)
	_ = c.read()
}

// greet queues the preface and our settings (RFC 9113, section 3.4).
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

// Done is closed when the connection is.
func (c *ClientConn) Done() <-chan struct{} { return c.done }

// Spoke reports whether the server has begun to speak HTTP/2.
func (c *ClientConn) Spoke() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spoke
}

// Ended reports whether the connection has ended, which its requests learn after it.
func (c *ClientConn) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil
}

// takes returns how many requests the server takes at a time. usable reports whether a request may begin, perhaps behind others.
func (c *ClientConn) takes() (most int, usable bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most - c.pacing.count, c.usable()
}

// endedByError reports whether the server has ended the connection and has said that the client did wrong.
func (c *ClientConn) endedByError() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.away != nil && c.away.Code != http2.ErrCodeNo
}

// presume lets a server that has not said how many requests it takes get no more than it takes on another connection.
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

// whenRoom has f called, in a goroutine, when the connection may take more requests for another reason than that one has ended.
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

// SetDoNotReuse lets the connection take no more requests, and end with the last.
func (c *ClientConn) SetDoNotReuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire()
}

// retire is SetDoNotReuse with c.mu held.
func (c *ClientConn) retire() {
	c.used = true
	c.unqueue()
}

// Close ends the connection, and what is under way on it.
func (c *ClientConn) Close() { c.close() }

// Shutdown tells the server that the connection ends, and waits until the last request has.
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

// Ping waits for the server's answer to a ping.
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

// await waits for a request's turn: for a stream, and room for its headers. c.mu is held, but not while it waits.
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
	c.granted-- // it is ours, for a stream or for the next
	if err := ctx.Err(); err != nil {
		c.admit()
		return err
	}
	return nil
}

// free is how many requests may begin now.
func (c *ClientConn) free() int {
	if c.output.waiting() >= outMost {
		return 0
	}
	return c.most - len(c.streams) - c.granted
}

// admit gives turns as long as there is room.
func (c *ClientConn) admit() {
	for len(c.queue) > 0 && c.free() > 0 {
		c.granted++
		close(c.queue[0])
		c.queue = slices.Delete(c.queue, 0, 1)
	}
}

// unqueue lets those that wait see that the connection is of no use any more.
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

// wentAway is section 6.8: requests beyond the last that the server has seen may be sent again.
func (c *ClientConn) wentAway(f *http2.GoAwayFrame) {
	debug := f.DebugData()
	c.away = &GoAwayError{f.ErrCode, string(debug[:min(len(debug), debugMost)])}
	for id, s := range c.streams {
		if id <= f.LastStreamID {
			continue
		}
		if id == 1 && f.ErrCode != http2.ErrCodeNo { // the next connection would not do better
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

// endUnused closes a connection that will have no more requests.
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

// Silence is how long nothing has come.
func (c *ClientConn) Silence() time.Duration { return c.in.silence() }
