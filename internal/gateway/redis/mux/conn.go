package mux

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

const (
	// MaxOutstanding limits a client's requests without a reply, so that other clients' requests come in between.
	MaxOutstanding = 128
	// maxUnread is the number of bytes of replies beyond which a client's next requests wait. The replies to its
	// outstanding requests count as if they were as long as its latest ones.
	maxUnread = 512 << 10
	// maxInFlight is the number of bytes in a client's outstanding requests and their replies, on a moving average,
	// beyond which it should not share connections.
	maxInFlight = 64 << 10
	// freeUnread is the number of bytes of unread replies that need no budget.
	freeUnread = 16 << 10
	// maxShort is the number of unread bytes up to which a client gets time to read them when the budget has no more.
	maxShort = 1 << 20
	// shortTime is that time, in which the other clients of the connection wait too.
	shortTime = time.Second
)

// ErrSlow is returned for a client that does not read the replies to its requests, when the budget has no memory for
// more of them.
var ErrSlow = errors.New("it does not read its replies, and no memory is left for more of them")

// Conn is a client's connection to the server. It implements net.Conn: Begin, Write and Commit belong to one goroutine,
// Read and ReadNext to another one, and the other methods may be called from any.
type Conn struct {
	pool          *Pool
	owner         Owner
	local, remote net.Addr // of the first connection

	staged []byte // requests written since the last Commit

	begun *upstream // for them: Begin was called, and Commit not yet; nil otherwise

	over   atomic.Bool // CloseWrite or Close was called
	closed atomic.Bool // Close was called, or a deadline has passed

	mu          sync.Mutex
	changed     sync.Cond // any of the fields below
	id          Identity
	up          *upstream // shared connection with the latest requests; nil: none
	wrote       *upstream // that with the latest request that may write; nil: none
	own         *ownConn  // nil: not pinned
	reading     bool      // Read is in a call of own.Read
	unread      unread
	held        int64 // bytes of the budget for them
	outstanding int   // requests on up without a reply
	incomplete  int   // bytes of the reply that has not ended
	usual       int   // bytes of a reply, from the latest ones
	asked       int   // bytes of a request, from the latest ones
	inFlight    int   // bytes of outstanding requests and replies, from the latest Commits

	waited  time.Duration // for the client to read, since the last reply without delayed
	delayed bool          // the current reply had to wait for memory
	ended   bool          // CloseWrite was called
	err     error         // of all that follows, when unread is empty
}

// Budget limits the memory for unread replies.
type Budget interface {
	TryAcquire(n int64) bool
	Release(n int64)
}

// Owner holds what a Conn needs of the session that uses it.
type Owner struct {
	Budget Budget               // for unread replies
	OnWait func() (stop func()) // called before Begin and Pin wait for replies to be read; stop is called afterwards
	Client net.Addr             // the client's, for Config.Slow
}

// SetOwner must be called before the first Begin.
func (c *Conn) SetOwner(o Owner) { c.owner = o }

// Open gives the client a shared connection, so that it is known that the server can be reached.
func (c *Conn) Open(ctx context.Context) error {
	u, err := c.pool.take(ctx, c.id, nil)
	if err == nil {
		c.mu.Lock()
		c.up, c.remote, c.local = u, u.conn.RemoteAddr(), u.conn.LocalAddr()
		c.mu.Unlock()
	}
	return err
}

// Read returns replies. It implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.unread.size > 0:
			n := c.unread.read(p)
			c.wasRead()
			return n, nil
		case c.err != nil:
			return 0, c.err
		case c.own != nil:
			own := c.beginRead()
			n, err := own.Read(p)
			if c.endRead(own, n, err) {
				return n, err
			}
		case c.ended && c.outstanding == 0:
			return 0, io.EOF
		default:
			c.changed.Wait()
		}
	}
}

// ReadNext implements [gateway.BufferReader].
func (c *Conn) ReadNext(spare []byte, size int) (buf []byte, n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.unread.size > 0:
			if buf = c.unread.take(size); buf != nil {
				n = len(buf)
				memory.PutBuffer(spare)
			} else {
				if buf = spare; buf == nil {
					buf = memory.GetBuffer(size)
				}
				n = c.unread.read(buf[:cap(buf)])
			}
			c.wasRead()
			return buf[:cap(buf)], n, nil
		case c.own != nil:
			own := c.beginRead()
			buf, n, err = gateway.ReadNext(own.Conn, spare, size)
			spare = nil
			if c.endRead(own, n, err) {
				return buf, n, err
			}
		default:
			memory.PutBuffer(spare) // it may have to wait for long
			spare = nil
			switch {
			case c.err != nil:
				return nil, 0, c.err
			case c.ended && c.outstanding == 0:
				return nil, 0, io.EOF
			}
			c.changed.Wait()
		}
	}
}

// beginRead begins a read of the client's own connection, and returns that. mu must be held; beginRead releases it, and
// endRead locks it again.
func (c *Conn) beginRead() *ownConn {
	own := c.own
	c.reading = true
	c.mu.Unlock()
	return own
}

// endRead ends a read, and reports whether its result is one for the client: Unpin interrupts reads.
func (c *Conn) endRead(own *ownConn, n int, err error) bool {
	c.mu.Lock()
	c.reading = false
	c.changed.Broadcast()
	return n > 0 || c.own == own || !errors.Is(err, os.ErrDeadlineExceeded)
}

// wasRead gives memory back after bytes of unread were read. mu must be held.
func (c *Conn) wasRead() {
	if c.held > 0 && (c.unread.size <= freeUnread || c.held > 2*int64(c.unread.size)) {
		keep := max(int64(c.unread.size)-freeUnread, 0)
		c.owner.Budget.Release(c.held - keep)
		c.held = keep
	}
	c.changed.Broadcast()
}

// drop gives up what was not read. mu must be held.
func (c *Conn) drop() {
	c.unread.clear()
	c.wasRead()
}

// receive adds bytes of replies from u, of which n end with them.
func (c *Conn) receive(u *upstream, b []byte, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.incomplete += len(b)
	if n > 0 {
		c.outstanding -= n
		c.usual += (c.incomplete/n - c.usual) / 8
		c.incomplete = 0
	}
	for len(b) > 0 && c.err == nil {
		piece := b
		if !c.take(len(b)) {
			piece, c.delayed = b[:min(len(b), freeUnread)], true
			if !c.waitForRoom(u, len(piece)) {
				break
			}
		}
		c.unread.add(piece)
		b = b[len(piece):]
		c.changed.Broadcast()
	}
	if n > 0 {
		if !c.delayed {
			c.waited = 0
		}
		c.delayed = false
	}
	c.changed.Broadcast()
}

// waitForRoom takes memory for n more bytes of replies while the budget is short, and reports whether it got it. The
// client gets shortTime to read, unless it alone waits for replies of u; then it is ended. mu must be held; it is
// released meanwhile.
func (c *Conn) waitForRoom(u *upstream, n int) bool {
	began := time.Now()
	t := time.AfterFunc(max(shortTime-c.waited, 0), func() {
		defer panics.Catch(nil, nil, nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer t.Stop()
	defer func() { c.waited += time.Since(began) }()
	for c.err == nil {
		if c.take(n) {
			return true
		}
		if (c.waited+time.Since(began) >= shortTime || c.unread.size >= maxShort) && !u.reserveIfAlone(c) {
			c.err = ErrSlow
			c.drop()
			c.pool.cfg.Slow(c.owner.Client)
			return false
		}
		c.changed.Wait()
		t.Reset(shortTime) // a new request of another client may have come just before Wait
	}
	return false
}

// take takes memory for n more bytes of replies if the budget has it. mu must be held.
func (c *Conn) take(n int) bool {
	more := int64(c.unread.size+n) - freeUnread - c.held
	if more > 0 && !c.owner.Budget.TryAcquire(more) {
		return false
	}
	c.held += max(more, 0)
	return true
}

// lose ends the client's use of a connection that has ended before all replies came.
func (c *Conn) lose(u *upstream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.up == u && c.outstanding > 0 && c.err == nil {
		c.err = io.EOF
	}
	c.changed.Broadcast()
}

// Begin gives a client that is not pinned a connection for the requests that it writes up to the next Commit. It may
// wait for replies to earlier requests of the client. It returns a time before that connection was dialed.
func (c *Conn) Begin(ctx context.Context) (dialed time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waitWhile(func() bool {
		return c.err == nil && (c.outstanding >= MaxOutstanding || c.unread.size > maxUnread ||
			c.outstanding > 0 && (c.unread.size+c.outstanding*c.usual > maxUnread || c.begun == nil && !c.up.serves(c)))
	})
	for {
		switch {
		case c.err != nil:
			return time.Time{}, c.err
		case c.ended:
			return time.Time{}, net.ErrClosed
		case c.begun != nil:
			return c.begun.dialed, nil
		case c.up != nil && c.up.begin(c):
			c.begun = c.up
			return c.up.dialed, nil
		}
		id, old := c.id, c.up
		c.up = nil
		c.mu.Unlock()
		u, err := c.pool.take(ctx, id, old)
		c.mu.Lock()
		if err != nil {
			return time.Time{}, err
		}
		if c.closed.Load() {
			c.pool.leave(u)
			return time.Time{}, net.ErrClosed
		}
		c.up = u
	}
}

// BeginWait is Begin for WAIT, which needs the connection of the client's latest write, and blocks it. So other
// clients' requests use other connections from now on, except for their own WAITs. It reports false if that connection
// has ended.
func (c *Conn) BeginWait(ctx context.Context) (ok bool, dialed time.Time, err error) {
	c.mu.Lock()
	c.waitWhile(func() bool { return c.err == nil && c.outstanding > 0 && c.wrote != nil && c.wrote != c.up })
	u := c.wrote
	if u != nil && u != c.up && c.err == nil {
		c.pool.leave(c.up)
		u.join()
		c.up = u
	}
	c.mu.Unlock()
	if u == nil {
		if dialed, err = c.Begin(ctx); err != nil {
			return false, dialed, err
		}
		c.mu.Lock()
		u = c.begun
		c.mu.Unlock()
		return u != nil && u.reserve(c), dialed, nil
	}
	if !u.beginWait(c) {
		return false, dialed, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun = u; c.closed.Load() {
		return false, dialed, net.ErrClosed
	}
	return true, u.dialed, nil
}

// MovesMuch reports whether the client's requests and replies are so long, or so many at a time, that they fill writes
// of their own: a shared connection would only add copies, and other clients' replies wait behind this one's.
func (c *Conn) MovesMuch() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inFlight > maxInFlight
}

// HasWritten reports whether the client has sent a request that may write on a shared connection.
func (c *Conn) HasWritten() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrote != nil
}

// waitWhile waits until must returns false. mu must be held; it is released during the wait.
func (c *Conn) waitWhile(must func() bool) {
	if !must() {
		return
	}
	c.mu.Unlock()
	stop := c.owner.OnWait()
	c.mu.Lock()
	for must() {
		c.changed.Wait()
	}
	stop()
}

// Write sends bytes of requests. While the client is not pinned they wait for Commit. It implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	if own := c.pinned(); own != nil {
		return own.Write(b)
	}
	c.staged = append(memory.GrowBuffer(c.staged, len(b)), b...)
	return len(b), nil
}

// Commit sends the requests that were written since Begin, to which there will be n replies; writes reports whether one
// of them may write. If it was called in the middle of a request, of which the rest follows, more is true. It may wait
// for other clients' requests to leave.
func (c *Conn) Commit(n int, writes, more bool) error {
	staged := c.staged
	c.staged = nil
	defer memory.PutBuffer(staged)
	c.mu.Lock()
	u := c.begun
	if !more {
		c.begun = nil
	}
	switch {
	case u == nil:
		c.mu.Unlock()
		return net.ErrClosed
	case n == 0 || c.err != nil:
		defer c.mu.Unlock()
		if !more {
			u.commit()
		}
		return c.err
	}
	c.outstanding += n
	c.asked += (len(staged)/n - c.asked) / 8
	c.inFlight += (c.outstanding*(c.usual+c.asked) - c.inFlight) / 8
	if writes {
		c.wrote = u
	}
	c.mu.Unlock()
	err := u.send(c, staged, n, more)
	if err != nil { // like a connection of its own that has ended
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.outstanding -= n; c.err == nil {
			c.err = io.EOF
		}
		c.changed.Broadcast()
	}
	return err
}

// Pin gives a client that is not pinned a connection of its own, with its identity, until Unpin. It waits until all
// replies that are outstanding have been read. Nothing may be staged. It returns a time before that connection was
// dialed.
func (c *Conn) Pin(ctx context.Context) (dialed time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waitWhile(func() bool { return c.err == nil && (c.outstanding > 0 || c.unread.size > 0) })
	if c.err != nil {
		return dialed, c.err
	}
	id, u := c.id, c.up
	c.up = nil
	c.mu.Unlock()
	c.pool.leave(u)
	own, err := c.pool.own(ctx, id)
	c.mu.Lock()
	switch {
	case err != nil:
		return dialed, err
	case c.err != nil:
		_ = c.pool.closeOwn(own)
		return dialed, c.err
	}
	c.own = own
	c.changed.Broadcast()
	return own.dialed, nil
}

// Unpin gives the client's own connection back, which now has the given identity. clean reports that it has no other
// state; otherwise it is closed. No reply may be outstanding.
func (c *Conn) Unpin(id Identity, clean bool) {
	c.mu.Lock()
	own := c.own
	if own == nil || c.err != nil || c.ended {
		c.mu.Unlock()
		return
	}
	c.own, c.id = nil, id
	for c.reading { // the reading goroutine is to leave the connection
		_ = own.SetReadDeadline(time.Now())
		c.changed.Wait()
	}
	c.mu.Unlock()
	if !clean {
		_ = c.pool.closeOwn(own)
		return
	}
	_ = own.SetReadDeadline(time.Time{})
	c.pool.giveBack(id, own)
}

// pinned returns the client's own connection; nil if it has none.
func (c *Conn) pinned() *ownConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.own
}

// CloseWrite says that no more requests follow. When all replies have been read, Read returns io.EOF.
func (c *Conn) CloseWrite() error {
	c.over.Store(true)
	c.mu.Lock()
	c.ended = true
	own, u := c.own, c.up
	c.changed.Broadcast()
	c.mu.Unlock()
	if own != nil {
		return gateway.CloseWrite(own.Conn)
	}
	if u != nil {
		u.mu.Lock()
		u.endReserved()
		u.mu.Unlock()
	}
	return nil
}

// Close ends the client's use of connections. Replies that are outstanding on a shared one are dropped as they come.
// Its own connection is closed.
func (c *Conn) Close() error {
	c.over.Store(true)
	c.closed.Store(true)
	c.mu.Lock()
	c.err = net.ErrClosed
	own, u, begun := c.own, c.up, c.begun
	c.own, c.up, c.begun = nil, nil, nil
	c.drop()
	c.mu.Unlock()
	if begun != nil {
		begun.commit()
	}
	c.pool.leave(u)
	if own != nil {
		return c.pool.closeOwn(own)
	}
	return nil
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn for a pinned client; otherwise it has no effect.
func (c *Conn) SetDeadline(t time.Time) error {
	if own := c.pinned(); own != nil {
		return own.SetDeadline(t)
	}
	return nil
}

// SetReadDeadline is like SetDeadline.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if own := c.pinned(); own != nil {
		return own.SetReadDeadline(t)
	}
	return nil
}

// SetWriteDeadline implements net.Conn. Without an own connection it ends the client's use of connections at that time.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if own := c.pinned(); own != nil {
		return own.SetWriteDeadline(t)
	}
	if !t.IsZero() {
		time.AfterFunc(time.Until(t), func() {
			defer panics.Catch(nil, nil, nil)
			c.fail(os.ErrDeadlineExceeded)
		})
	}
	return nil
}

// fail makes all that follows fail, after the replies that can be read.
func (c *Conn) fail(err error) {
	c.closed.Store(true)
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	u := c.up
	c.changed.Broadcast()
	c.mu.Unlock()
	if u != nil {
		u.mu.Lock()
		u.room.Broadcast() // the client may wait in send
		u.mu.Unlock()
	}
}
