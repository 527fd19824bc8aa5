package mux

import (
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

const (
	readBytes   = 64 << 10  // read buffer of a shared connection
	maxUnsent   = 256 << 10 // bytes that wait to be written; beyond that clients wait
	maxIdleSend = 512 << 10 // largest write buffer that is kept
)

// upstream is a connection that clients share.
type upstream struct {
	conn   net.Conn
	dialed time.Time // before it was
	group  *group

	mu       sync.Mutex
	room     sync.Cond                  // out has become shorter, or err was set
	out      []byte                     // requests that wait to be written
	spare    []byte                     // the other buffer, while nothing is being written
	rest     []byte                     // of a buffer that was written in part
	writing  bool                       // a goroutine is writing
	late     bool                       // writeRests is to write
	wake     sync.Cond                  // late or err was set
	direct   *gateway.NonblockingWriter // nil: the connection has no socket of its own
	expected []expectation
	head     int       // of expected
	users    int       // clients that use the connection
	begun    int       // clients that have called begin, and not send or commit since
	reserved *Conn     // the only client whose next requests may use it; nil: any
	left     time.Time // when the last one left
	err      error
}

// expectation stands for the replies to consecutive requests of one client.
type expectation struct {
	to *Conn
	n  int
}

func newUpstream(g *group, c *ownConn) *upstream {
	u := &upstream{conn: c.Conn, dialed: c.dialed, group: g, direct: gateway.NewNonblockingWriter(c.Conn)}
	u.room.L, u.wake.L = &u.mu, &u.mu
	return u
}

func (u *upstream) join() {
	u.mu.Lock()
	u.users++
	u.mu.Unlock()
}

// takesClient is like join, if the connection serves any client.
func (u *upstream) takesClient() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.isOpenTo(nil) {
		return false
	}
	u.users++
	return true
}

// serves reports whether a client's next request may use the connection.
func (u *upstream) serves(c *Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.isOpenTo(c)
}

// isOpenTo is serves for callers that hold mu. A nil client stands for any.
func (u *upstream) isOpenTo(c *Conn) bool {
	return u.err == nil && (u.reserved == nil || u.reserved == c)
}

// begin reports whether a client's next request may use the connection. If so, the client must call send or commit.
func (u *upstream) begin(c *Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.isOpenTo(c) {
		return false
	}
	u.begun++
	return true
}

// beginWait is begin for WAIT, after a write of the client on the connection. If the connection is reserved for another
// client, that is for its WAIT, and this one comes behind it.
func (u *upstream) beginWait(c *Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil {
		return false
	}
	u.begun++
	return u.keepFor(c)
}

// reserve keeps the connection for one client, which has called begin.
func (u *upstream) reserve(c *Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.keepFor(c)
}

// keepFor reserves the connection for a client if it is not reserved yet, waits until others have sent the requests
// that they have begun, and reports whether the connection is still open. mu must be held; it is released meanwhile.
func (u *upstream) keepFor(c *Conn) bool {
	if u.reserved == nil {
		u.reserved = c
	}
	for u.reserved == c && u.begun > 1 && u.err == nil && !c.closed.Load() {
		u.room.Wait()
	}
	return u.err == nil
}

// commit ends what begin began, without a request.
func (u *upstream) commit() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.committed()
}

// committed ends what begin began. mu must be held.
func (u *upstream) committed() {
	if u.begun--; u.reserved != nil {
		u.room.Broadcast()
	}
}

// endReserved ends a connection that is reserved for a client which has ended its side, so that the server gives up
// what blocks it. Other clients' replies come first, except those to their WAITs. mu must be held.
func (u *upstream) endReserved() {
	c := u.reserved
	if c == nil || u.writing || !c.over.Load() || u.head < len(u.expected) && u.expected[u.head].to != c {
		return
	}
	if c.closed.Load() {
		u.fail(net.ErrClosed)
		return
	}
	_ = gateway.CloseWrite(u.conn)
}

// closeIdle ends the connection if it has had no client for idleTime.
func (u *upstream) closeIdle(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.users == 0 && u.head == len(u.expected) && now.Sub(u.left) >= idleTime {
		u.fail(net.ErrClosed)
	}
}

// reserveIfAlone is like reserve if no other client has a request on the connection, and reports whether that is so.
func (u *upstream) reserveIfAlone(c *Conn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	others := slices.ContainsFunc(u.expected[u.head:], func(e expectation) bool { return e.to != c })
	if others || !u.isOpenTo(c) {
		return false
	}
	u.reserved = c
	return true
}

// send sends a client's requests, b, to which there will be n replies. If another goroutine is writing, that one sends
// them, in one write with others that come meanwhile. Otherwise the caller's goroutine writes, as much as the system
// takes at once; writeRests writes the rest, so that no client waits for bytes of others.
//
// send ends what begin began, unless more is true.
func (u *upstream) send(c *Conn, b []byte, n int, more bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !more {
		defer u.committed()
	}
	for len(u.out) > maxUnsent && u.err == nil && !c.closed.Load() {
		u.room.Wait()
	}
	u.room.Signal() // there may be room for the next one too
	switch {
	case u.err != nil:
		return u.err
	case c.closed.Load():
		return net.ErrClosed
	}
	if u.reserved != nil && u.reserved != c {
		u.reserved.changed.Broadcast() // see waitForRoom
	}
	u.out = append(u.out, b...)
	if last := len(u.expected) - 1; last >= u.head && u.expected[last].to == c {
		u.expected[last].n += n
	} else {
		u.expected = append(u.expected, expectation{c, n})
	}
	if u.writing {
		return nil
	}
	u.writing = true
	u.mu.Unlock()
	runtime.Gosched() // clients whose requests have come too add them to the write
	u.mu.Lock()
	if u.direct == nil || !u.flush(u.direct.Write) {
		u.late = true
		u.wake.Signal()
	}
	return u.err
}

// writeRests writes what the goroutines of clients leave, until the connection ends.
func (u *upstream) writeRests() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for u.err == nil {
		if !u.late {
			u.wake.Wait()
			continue
		}
		u.flush(u.conn.Write)
		u.late = false
	}
}

// flush writes requests until none wait, and reports whether that is so, or the connection has ended: if write took
// less than it was given, the rest stays. mu must be held; it is released during writes.
func (u *upstream) flush(write func([]byte) (int, error)) bool {
	for len(u.rest)+len(u.out) > 0 && u.err == nil {
		b := u.rest
		if len(b) == 0 {
			b = u.out
			u.out, u.spare = u.spare[:0], b
		}
		u.mu.Unlock()
		n, err := write(b)
		u.mu.Lock()
		u.rest = b[n:]
		switch {
		case err != nil:
			u.fail(err)
		case n < len(b):
			return false
		}
		if cap(u.spare) > maxIdleSend {
			u.spare = nil
		}
		u.room.Signal()
	}
	u.writing = false
	u.endReserved()
	return true
}

// fail ends the connection. mu must be held.
func (u *upstream) fail(err error) {
	if u.err == nil {
		u.err = err
		_ = u.conn.Close()
		u.room.Broadcast()
		u.wake.Signal()
	}
}

// next returns the client of the next reply; nil if none is expected.
func (u *upstream) next() *Conn {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.head == len(u.expected) {
		return nil
	}
	return u.expected[u.head].to
}

// answered removes n expected replies of the next client.
func (u *upstream) answered(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	e := &u.expected[u.head]
	if e.n -= n; e.n > 0 {
		return
	}
	defer u.endReserved()
	*e = expectation{}
	if u.head++; u.head == len(u.expected) {
		u.expected, u.head = u.expected[:0], 0
	} else if u.head > 1024 && u.head > len(u.expected)/2 {
		u.expected, u.head = append(u.expected[:0], u.expected[u.head:]...), 0
	}
}

var errUnexpected = errors.New("mux: the server has sent a reply that answers no request")

// read hands replies to the clients until the connection ends.
func (u *upstream) read() {
	err := io.ErrUnexpectedEOF
	defer func() { u.ended(err) }()
	if ended := u.carry(); ended != nil {
		err = ended
	}
}

// ended tells the clients that the connection has ended.
func (u *upstream) ended(err error) {
	u.mu.Lock()
	lost := u.err == nil
	u.fail(err)
	waiting := u.expected[u.head:]
	u.expected, u.head = nil, 0
	u.mu.Unlock()
	u.group.pool.mu.Lock()
	u.group.remove(u)
	u.group.pool.mu.Unlock()
	if lost {
		u.group.pool.cfg.Lost()
	}
	for _, e := range waiting {
		e.to.lose(u)
	}
}

func (u *upstream) carry() error {
	buf := memory.GetBuffer(readBytes)[:readBytes]
	defer memory.PutBuffer(buf)
	var parse replies
	end := 0
	for {
		n, err := u.conn.Read(buf[end:])
		if n == 0 && err != nil {
			return err
		}
		end += n
		at := 0
		for at < end {
			// Consecutive replies to one client are handed over together.
			var to *Conn
			start, replied := at, 0
			for at < end {
				k, ended, err := parse.next(buf[at:end])
				if err != nil {
					return err
				}
				if k == 0 {
					break
				}
				if parse.push { // of the server itself: there are no subscriptions on a shared connection
					if at > start {
						to.receive(u, buf[start:at], replied)
						u.answered(replied)
					}
					at += k
					start, replied = at, 0
					continue
				}
				if to == nil {
					if to = u.next(); to == nil {
						return errUnexpected
					}
				}
				at += k
				if !ended {
					continue
				}
				replied++
				if !u.hasMore(replied) {
					break
				}
			}
			if at == start {
				break
			}
			to.receive(u, buf[start:at], replied)
			if replied > 0 {
				u.answered(replied)
			}
		}
		end = copy(buf, buf[at:end])
	}
}

// hasMore reports whether the next client expects more than n replies.
func (u *upstream) hasMore(n int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.expected[u.head].n > n
}
