package http2

import (
	"encoding/binary"
	"io"
	"math"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

const frameHeaderLen = 9

// flagMarked is a flag of DATA frames that tells secretFrames to keep a frame out of the history. secretFrames clears
// it, because HTTP/2 does not define it.
const flagMarked xhttp2.Flags = 0x40

// stream is one stream of a connection. The connection's mu guards it.
type stream struct {
	c    *conn
	id   uint32
	user any       // the role's own state of the stream
	wake sync.Cond // signals changes of the fields below

	in              buffer
	window          inflow      // receive window
	length          int64       // body bytes that are still to come by content-length; -1: unknown
	headersReceived bool        // headers have arrived, so that data may follow
	remoteEnd       bool        // END_STREAM has arrived
	inErr           error       // what reads return when the buffer is empty
	trailer         http.Header // received, and not in trailers yet
	readTimer       *time.Timer // of the read deadline
	deadlinePassed  bool        // the read deadline has passed while the handler had unread data

	trailers          *http.Header // set or completed at the end of the body
	trailersAnnounced bool         // trailers is limited to the names that it already has

	widen  func(n int64) bool // see Sending.Widen
	marked bool               // its DATA frames have flagMarked

	sendWindow   int64       // send window
	localEnd     bool        // END_STREAM has been queued
	outErr       error       // what writes return: errEnded after localEnd
	gone         bool        // the connection has removed it
	abandoned    bool        // it waits to be reset, and is not read any more
	bodyBegun    atomic.Bool // some of the body, or its end, has arrived
	touched      bool        // it is in c.touched
	waitsForRoom bool        // it is in c.roomWaiters
}

// isUnused reports whether the connection and its timers refer to the stream no longer, and never will again. c.mu must
// be held.
func (s *stream) isUnused() bool {
	return s.gone && !s.abandoned && !s.touched && !s.waitsForRoom && s.readTimer == nil
}

// touch lets beforeRead wake the goroutines that wait for the stream.
func (s *stream) touch() {
	if !s.touched {
		s.touched = true
		s.c.touched = append(s.c.touched, s)
	}
}

// fail ends writes, and ends reads after the data that has arrived.
func (s *stream) fail(err error) {
	if s.inErr == nil && !s.remoteEnd {
		s.inErr = err
	}
	if s.outErr == nil {
		s.outErr = err
	}
	s.wake.Broadcast()
}

// endWith handles the trailers that end the body.
func (s *stream) endWith(trailer http.Header) error {
	if s.length > 0 {
		return malformed(s.id, "the body's length differs from content-length")
	}
	s.trailer = trailer
	s.endRemote()
	return nil
}

// endRemote records that END_STREAM has arrived, and removes a stream that has ended in both directions.
func (s *stream) endRemote() {
	s.remoteEnd = true
	s.bodyBegun.Store(true)
	s.touch()
	if s.localEnd {
		s.c.remove(s)
	}
}

// endLocal records that END_STREAM has been queued, and removes a stream that has ended in both directions.
func (s *stream) endLocal() {
	s.localEnd = true
	if s.outErr == nil {
		s.outErr = errEnded
	}
	if s.remoteEnd {
		s.c.remove(s)
	}
}

// restoreWindow enlarges the receive windows after n bytes were read or discarded: the connection's, and that
// of s unless it is nil. It is called with 0 for data that is kept: that may use up the connection's window,
// and then the bytes that other streams have read must be announced.
func (c *conn) restoreWindow(s *stream, n int64) {
	if c.err != nil {
		return
	}
	if c.memory != nil {
		c.lend(n)
	}
	if more := c.inflow.add(n); more > 0 {
		c.control(func() error { return c.fr.WriteWindowUpdate(0, more) })
	}
	if s == nil || s.remoteEnd || s.gone || s.abandoned { // the peer sends no more on it, or need not
		return
	}
	if more := s.window.add(n); more > 0 {
		c.control(func() error { return c.fr.WriteWindowUpdate(s.id, more) })
	}
}

// lendPart sets when the window of a connection grows: when unread bodies take up 1/lendPart of it.
const lendPart = 4

// lend enlarges the connection's window by as much as unread bodies take up, as far as there is memory: otherwise a
// body that no handler reads would stop all other streams. When the bodies are read the window shrinks again. n is the
// number of bytes that were read and not yet given back to the window.
func (c *conn) lend(n int64) {
	w := &c.inflow
	more := w.size - w.avail - w.unannounced - n - c.lent // bytes that are unread, and not paid for
	switch {
	case more < 0:
		c.memory.Release(-more)
	case more*lendPart < w.size-c.lent || !c.memory.TakeSpare(more):
		return
	}
	c.lent += more
	w.size += more
	w.unannounced += more
}

// growWindow doubles the receive window of a stream whose reader keeps up with the peer, if widen permits it: otherwise
// the round-trip time to the peer would limit the speed of long bodies. n is the number of bytes that were read and not
// yet given back to the window.
func (s *stream) growWindow(n int64) {
	w := &s.window
	unannounced := w.unannounced + n
	switch {
	case unannounced*2 < w.size, s.remoteEnd || s.gone, s.length >= 0 && s.length <= w.avail+unannounced: // the window suffices
	case s.widen(w.size):
		w.unannounced += w.size
		w.size *= 2
	}
}

// read reads data that has arrived. With an empty p it waits for data. It completes the trailers before it
// returns io.EOF.
func (s *stream) read(p []byte) (int, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for s.in.len() == 0 && s.inErr == nil && !s.remoteEnd {
		if s.deadlinePassed {
			s.inErr = os.ErrDeadlineExceeded
			break
		}
		s.wake.Wait()
	}
	switch {
	case s.in.len() > 0:
		n := s.in.read(p)
		if s.widen != nil && s.in.len() == 0 {
			s.growWindow(int64(n))
		}
		c.restoreWindow(s, int64(n))
		c.flush()
		return n, nil
	case s.inErr != nil:
		return 0, s.inErr
	}
	s.setTrailers()
	return 0, io.EOF
}

// ReadWhole returns the whole body, if all of it has arrived, it is no longer than most, and none of it has
// been read. The trailers are complete then. body is never nil, may be pooled, and belongs to the caller.
func (s *stream) ReadWhole(most int) (body []byte, ok bool) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.remoteEnd || s.inErr != nil || s.in.at > 0 || len(s.in.b) > most {
		return nil, false
	}
	if body, s.in.b = s.in.b, nil; body == nil { // before flush, during which others may change the stream
		body = []byte{}
	}
	c.restoreWindow(s, int64(len(body)))
	s.setTrailers()
	c.flush()
	return body, true
}

// setTrailers completes the trailers at the end of the body. c.mu must be held.
func (s *stream) setTrailers() {
	if *s.trailers == nil && !s.trailersAnnounced {
		*s.trailers = s.trailer
	} else {
		for name, values := range s.trailer {
			if _, ok := (*s.trailers)[name]; ok || !s.trailersAnnounced {
				(*s.trailers)[name] = values
			}
		}
	}
	s.trailer = nil
}

// Complete reports whether all of the body has arrived, or an error has ended it: no read will wait.
func (s *stream) Complete() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.remoteEnd || s.inErr != nil
}

// drop discards unread data. Later reads return err, unless another error came first. c.mu must be held.
func (s *stream) drop(err error) {
	if s.inErr == nil {
		s.inErr = err
	}
	if s.in.b != nil {
		s.c.restoreWindow(s, int64(s.in.free()))
	}
	if s.readTimer != nil {
		s.readTimer.Stop()
	}
}

// write queues data, and waits for room in the windows and the queue. c.mu must be held; it is released while
// waiting.
func (s *stream) write(p []byte, end bool) error {
	for {
		if s.outErr != nil {
			return s.outErr
		}
		n := s.fits(len(p))
		if n > 0 || len(p) == 0 {
			last := end && n == len(p)
			s.queueData(p[:n], last)
			if p = p[n:]; len(p) == 0 {
				if last {
					s.endLocal()
				}
				return nil
			}
			continue
		}
		s.waitForRoom(func() bool { return s.fits(1) > 0 })
	}
}

// fits returns how many of n bytes fit into a frame now.
func (s *stream) fits(n int) int {
	c := s.c
	room := maxQueuedBytes - c.output.queuedBytes()
	return max(0, int(min(int64(n), int64(c.peerMaxFrame), int64(c.frameBytes), s.sendWindow, c.sendWindow, int64(room))))
}

// queueData queues a DATA frame (RFC 9113, section 6.1). The Framer would copy p twice: into its own buffer, and
// from there to the queue.
func (s *stream) queueData(p []byte, end bool) {
	s.sendWindow -= int64(len(p))
	s.c.sendWindow -= int64(len(p))
	var flags xhttp2.Flags
	if end {
		flags = xhttp2.FlagDataEndStream
	}
	if s.marked {
		flags |= flagMarked
	}
	var head [frameHeaderLen]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(p))<<8|uint32(xhttp2.FrameData))
	head[4] = byte(flags)
	binary.BigEndian.PutUint32(head[5:], s.id)
	o := &s.c.output
	o.out = append(append(grow(o.out, len(head)+len(p)), head[:]...), p...)
}

// waitForRoom writes queued frames, and waits for a change unless ready reports that there is room.
func (s *stream) waitForRoom(ready func() bool) {
	c := s.c
	c.flush()
	if s.outErr != nil || ready() { // flush releases c.mu
		return
	}
	if !s.waitsForRoom {
		s.waitsForRoom = true
		c.roomWaiters = append(c.roomWaiters, s)
	}
	s.wake.Wait()
}

// awaitRoom waits until there is room for headers. c.mu must be held; it is released while waiting.
func (s *stream) awaitRoom() error {
	ready := func() bool { return s.c.output.queuedBytes() < maxQueuedBytes }
	for {
		if s.outErr != nil {
			return s.outErr
		}
		if ready() {
			return nil
		}
		s.waitForRoom(ready)
	}
}

// setReadDeadline lets reads that wait at the given time return os.ErrDeadlineExceeded. If unread data has arrived by
// then, the peer was not late: reads return that data before the error, and the reader may set another deadline before
// it reads on. A zero time cancels the deadline.
func (s *stream) setReadDeadline(at time.Time) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.readTimer != nil {
		s.readTimer.Stop()
		s.readTimer = nil
	}
	s.deadlinePassed = false
	if at.IsZero() || s.inErr != nil {
		return
	}
	expire := func() {
		if s.inErr == nil && !s.remoteEnd {
			s.inErr = os.ErrDeadlineExceeded
			s.wake.Broadcast()
		}
	}
	if wait := time.Until(at); wait > 0 {
		s.readTimer = s.c.after(wait, func() {
			if s.deadlinePassed = s.in.len() > 0; !s.deadlinePassed {
				expire()
			}
		})
		return
	}
	expire()
}

// maxWindow is the largest size of a window (RFC 9113, section 6.9.1).
const maxWindow = math.MaxInt32

// initialWindow is the initial window of streams and connections (section 6.9.2).
const initialWindow = 65_535

// inflow is a receive window.
type inflow struct {
	size        int64 // of the whole window, in bytes
	avail       int64 // bytes that may still arrive
	unannounced int64 // bytes that were read and not announced yet
}

// take counts n received bytes. It reports false if they exceed the window.
func (w *inflow) take(n int64) bool {
	w.avail -= n
	return w.avail >= 0
}

// add returns the increment for a WINDOW_UPDATE after n bytes were read; 0: send none yet. Unread data may
// use up most of a window: then the update must not wait until half of the window was read.
func (w *inflow) add(n int64) uint32 {
	w.unannounced += n
	if w.unannounced*2 < w.size && w.unannounced < w.avail {
		return 0
	}
	increment := w.unannounced
	w.avail += increment
	w.unannounced = 0
	return uint32(increment)
}

// buffer is a queue of bytes. It holds no memory when it is empty.
type buffer struct {
	b  []byte // pooled, or nil
	at int    // start of the unread bytes
}

func (b *buffer) len() int { return len(b.b) - b.at }

func (b *buffer) write(p []byte) {
	if b.at > 0 && len(b.b)+len(p) > cap(b.b) {
		b.b = b.b[:copy(b.b, b.b[b.at:])]
		b.at = 0
	}
	b.b = append(grow(b.b, len(p)), p...)
}

func (b *buffer) read(p []byte) int {
	n := copy(p, b.b[b.at:])
	if b.at += n; b.at == len(b.b) {
		b.free()
	}
	return n
}

// free empties the queue, and returns how many bytes it held.
func (b *buffer) free() int {
	n := b.len()
	memory.PutBuffer(b.b)
	b.b, b.at = nil, 0
	return n
}

// grow is slices.Grow for a pooled buffer, which it may replace.
func grow(b []byte, n int) []byte {
	need := len(b) + n
	if need <= cap(b) {
		return b
	}
	grown := append(memory.GetBuffer(max(need, 2*cap(b))), b...)
	memory.PutBuffer(b)
	return grown
}

// endKind says how a stream has ended.
type endKind uint8

const (
	endUnknown endKind = iota // or never opened
	endedNormally
	resetLocally // reset by this end: later frames on it are ignored (RFC 9113, section 5.1)
)

// endedStreams holds the streams that ended last.
type endedStreams struct {
	next int
	all  [64]endedStream
}

type endedStream struct {
	id   uint32
	kind endKind
}

// record records a stream that has just ended.
func (r *endedStreams) record(id uint32, how endKind) {
	last := &r.all[(r.next+len(r.all)-1)%len(r.all)]
	if last.id != id {
		last = &r.all[r.next]
		r.next = (r.next + 1) % len(r.all)
	}
	last.id, last.kind = id, how
}

// recordReset records that this end resets a stream that ended before, or was never opened.
func (r *endedStreams) recordReset(id uint32) {
	if e := r.find(id); e != nil {
		e.kind = resetLocally
		return
	}
	r.record(id, resetLocally)
}

func (r *endedStreams) kindOf(id uint32) endKind {
	if e := r.find(id); e != nil {
		return e.kind
	}
	return endUnknown
}

func (r *endedStreams) find(id uint32) *endedStream {
	for i := range r.all {
		if r.all[i].id == id {
			return &r.all[i]
		}
	}
	return nil
}
