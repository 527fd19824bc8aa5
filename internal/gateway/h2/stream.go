package h2

import (
	"encoding/binary"
	"io"
	"math"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
)

const frameHeaderLen = 9

// stream is one stream of a connection, whose mu guards it.
type stream struct {
	c    *conn
	id   uint32
	user any       // what the role has made of it
	wake sync.Cond // anything below

	in        buffer
	window    inflow
	length    int64       // that is still to come, as content-length says; -1: that says nothing
	headed    bool        // headers have come, and data may
	remoteEnd bool        // END_STREAM has come
	inErr     error       // what reads get behind what is in the buffer
	trailer   http.Header // that has come and was not told
	cut       *time.Timer // of a read deadline
	late      bool        // that has passed while something lay here which the handler had not read

	trailers  *http.Header // which the end of the body completes
	announced bool         // only of names that are there already

	out          int64       // window
	localEnd     bool        // END_STREAM has been queued
	outErr       error       // what writes get: errEnded behind localEnd
	gone         bool        // the connection does not know it any more
	abandoned    bool        // it is to be reset, and no handler reads it
	came         atomic.Bool // some of the body has come, or its end
	touched      bool        // is among c.touched
	waitsForRoom bool        // is among c.roomWaiters
}

// touch has beforeRead wake what waits for the stream.
func (s *stream) touch() {
	if !s.touched {
		s.touched = true
		s.c.touched = append(s.c.touched, s)
	}
}

// fail ends reads, behind what has come, and writes.
func (s *stream) fail(err error) {
	if s.inErr == nil && !s.remoteEnd {
		s.inErr = err
	}
	if s.outErr == nil {
		s.outErr = err
	}
	s.wake.Broadcast()
}

// endWith takes trailers, or a body's end by headers.
func (s *stream) endWith(trailer http.Header) error {
	if s.length > 0 {
		return malformed(s.id, "content-length is not the body's")
	}
	s.trailer = trailer
	s.endRemote()
	return nil
}

// endRemote notes that END_STREAM has come, behind all that it ends, and removes a stream that has ended both ways.
func (s *stream) endRemote() {
	s.remoteEnd = true
	s.came.Store(true)
	s.touch()
	if s.localEnd {
		s.c.remove(s)
	}
}

// endLocal notes that END_STREAM has been queued, and removes a stream that has ended both ways.
func (s *stream) endLocal() {
	s.localEnd = true
	if s.outErr == nil {
		s.outErr = errEnded
	}
	if s.remoteEnd {
		s.c.remove(s)
	}
}

// giveBack lets the peer send as much again as was read of a stream, or never kept. s is nil, or the stream whose window it is too. It is called
// with 0 for data that is kept: that may take what was left of the connection's window, and what other streams have read must be told then.
func (c *conn) giveBack(s *stream, n int64) {
	if c.err != nil {
		return
	}
	if more := c.inflow.give(n); more > 0 {
		c.control(func() error { return c.fr.WriteWindowUpdate(0, more) })
	}
	if s == nil || s.remoteEnd || s.gone || s.abandoned { // the peer sends no more on it, or need not
		return
	}
	if more := s.window.give(n); more > 0 {
		c.control(func() error { return c.fr.WriteWindowUpdate(s.id, more) })
	}
}

// read reads what has come. Without room in p it waits for something to read. Before it tells the end it completes the trailers.
func (s *stream) read(p []byte) (int, error) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for s.in.len() == 0 && s.inErr == nil && !s.remoteEnd {
		if s.late {
			s.inErr = os.ErrDeadlineExceeded
			break
		}
		s.wake.Wait()
	}
	switch {
	case s.in.len() > 0:
		n := s.in.read(p)
		c.giveBack(s, int64(n))
		c.flush()
		return n, nil
	case s.inErr != nil:
		return 0, s.inErr
	}
	s.tellTrailers()
	return 0, io.EOF
}

// ReadWhole reads the whole body, if all of it is here, is no longer than most and nothing of it has been read: the trailers are complete
// then. body is never nil, and may be pooled; it is the caller's.
func (s *stream) ReadWhole(most int) (body []byte, ok bool) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.remoteEnd || s.inErr != nil || s.in.at > 0 || len(s.in.b) > most {
		return nil, false
	}
	if body, s.in.b = s.in.b, nil; body == nil { // before flush, which lets others change the stream
		body = []byte{}
	}
	c.giveBack(s, int64(len(body)))
	s.tellTrailers()
	c.flush()
	return body, true
}

// tellTrailers completes the trailers, at the end of the body. c.mu is held.
func (s *stream) tellTrailers() {
	if *s.trailers == nil && !s.announced {
		*s.trailers = s.trailer
	} else {
		for name, values := range s.trailer {
			if _, ok := (*s.trailers)[name]; ok || !s.announced {
				(*s.trailers)[name] = values
			}
		}
	}
	s.trailer = nil
}

// Complete reports whether all of the body is here, or its end by an error: no read will wait.
func (s *stream) Complete() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.remoteEnd || s.inErr != nil
}

// drop forgets what was not read. c.mu is held.
func (s *stream) drop(err error) {
	if s.inErr == nil {
		s.inErr = err
	}
	if s.in.b != nil {
		s.c.giveBack(s, int64(s.in.free()))
	}
	if s.cut != nil {
		s.cut.Stop()
	}
}

// write queues data, and waits where windows or what is queued already are in the way. c.mu is held, but not while it waits.
func (s *stream) write(p []byte, end bool) error {
	for {
		if s.outErr != nil {
			return s.outErr
		}
		n := s.fits(len(p))
		if n > 0 || len(p) == 0 {
			last := end && n == len(p)
			s.data(p[:n], last)
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

// fits is how much of n bytes goes into a frame now.
func (s *stream) fits(n int) int {
	c := s.c
	room := outMost - c.output.waiting()
	return max(0, int(min(int64(n), int64(c.peerFrame), int64(frameBytes), s.out, c.outWindow, int64(room))))
}

// data queues a frame (RFC 9113, section 6.1). The Framer would copy p twice: into a buffer of its own, and from there
// to the queue.
func (s *stream) data(p []byte, end bool) {
	s.out -= int64(len(p))
	s.c.outWindow -= int64(len(p))
	var flags http2.Flags
	if end {
		flags = http2.FlagDataEndStream
	}
	var head [frameHeaderLen]byte
	binary.BigEndian.PutUint32(head[:], uint32(len(p))<<8|uint32(http2.FrameData))
	head[4] = byte(flags)
	binary.BigEndian.PutUint32(head[5:], s.id)
	o := &s.c.output
	o.out = append(append(grow(o.out, len(head)+len(p)), head[:]...), p...)
}

// waitForRoom writes what is queued, and waits for a change unless there is room already, as ready reports.
func (s *stream) waitForRoom(ready func() bool) {
	c := s.c
	c.flush()
	if s.outErr != nil || ready() { // flush gives up c.mu
		return
	}
	if !s.waitsForRoom {
		s.waitsForRoom = true
		c.roomWaiters = append(c.roomWaiters, s)
	}
	s.wake.Wait()
}

// awaitRoom waits until there is room for headers. c.mu is held, but not while it waits.
func (s *stream) awaitRoom() error {
	ready := func() bool { return s.c.output.waiting() < outMost }
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

// expireReads ends reads that still wait at a time, by os.ErrDeadlineExceeded. A reader that comes later reads what has come by then, and may
// set another time first: it is not the peer that was late.
func (s *stream) expireReads(at time.Time) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.cut != nil {
		s.cut.Stop()
		s.cut = nil
	}
	s.late = false
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
		s.cut = s.c.after(wait, func() {
			if s.late = s.in.len() > 0; !s.late {
				expire()
			}
		})
		return
	}
	expire()
}

// maxWindow is what a window may grow to (RFC 9113, section 6.9.1).
const maxWindow = math.MaxInt32

// initialWindow is that of streams and connections before anybody has said otherwise (section 6.9.2).
const initialWindow = 65_535

// inflow is a window that we have given: how much may still come, and what was read and not told yet.
type inflow struct {
	size   int64 // of the whole window
	avail  int64 // that may still come
	untold int64
}

// take counts what came. It reports false when that was more than allowed.
func (w *inflow) take(n int64) bool {
	w.avail -= n
	return w.avail >= 0
}

// give returns what a WINDOW_UPDATE should say after n bytes were read: 0 for none yet. What nobody reads may take most of a window:
// then the rest must not wait for half of the whole.
func (w *inflow) give(n int64) uint32 {
	w.untold += n
	if w.untold*2 < w.size && w.untold < w.avail {
		return 0
	}
	told := w.untold
	w.avail += told
	w.untold = 0
	return uint32(told)
}

// buffer is a queue of bytes. It holds no memory while it is empty.
type buffer struct {
	b  []byte // pooled, or nil
	at int    // before which everything was read
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

// free empties the queue, and returns how many bytes were in it.
func (b *buffer) free() int {
	n := b.len()
	gateway.PutBuffer(b.b)
	b.b, b.at = nil, 0
	return n
}

// grow is slices.Grow for a pooled buffer.
func grow(b []byte, n int) []byte {
	need := len(b) + n
	if need <= cap(b) {
		return b
	}
	grown := append(gateway.GetBuffer(max(need, 2*cap(b))), b...)
	gateway.PutBuffer(b)
	return grown
}

// howEnded is how a stream came to its end.
type howEnded uint8

const (
	endedLongAgo howEnded = iota // or never begun
	endedRegularly
	endedByUs // by a reset: what still comes on it is ignored (RFC 9113, section 5.1)
)

// endedStreams are the streams that have ended last.
type endedStreams struct {
	next int
	all  [64]endedStream
}

type endedStream struct {
	id  uint32
	how howEnded
}

// note is for a stream that has just ended.
func (r *endedStreams) note(id uint32, how howEnded) {
	last := &r.all[(r.next+len(r.all)-1)%len(r.all)]
	if last.id != id {
		last = &r.all[r.next]
		r.next = (r.next + 1) % len(r.all)
	}
	last.id, last.how = id, how
}

// ignore is for one that ended before, or never began, and that we reset now.
func (r *endedStreams) ignore(id uint32) {
	if e := r.find(id); e != nil {
		e.how = endedByUs
		return
	}
	r.note(id, endedByUs)
}

func (r *endedStreams) has(id uint32) howEnded {
	if e := r.find(id); e != nil {
		return e.how
	}
	return endedLongAgo
}

func (r *endedStreams) find(id uint32) *endedStream {
	for i := range r.all {
		if r.all[i].id == id {
			return &r.all[i]
		}
	}
	return nil
}
