package gateway

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Idle peers that have gone away are found after about two minutes: 30 s of
// silence, then probes. A gateway holds two connections for each client, so it
// must not keep half of them for the hours that systems default to.
var keepAlive = net.KeepAliveConfig{
	Enable:   true,
	Idle:     30 * time.Second,
	Interval: 30 * time.Second,
	Count:    3,
}

// Conn is a connection whose bytes are counted as they move, TLS records
// included. It is below TLS, never above. Its methods may be called as those of
// any net.Conn.
type Conn struct {
	net.Conn
	traffic *traffic   // nil: not counted
	first   *firstRead // of ReadFirst; belongs to the reading goroutine
	noWait  bool       // of ReadReady; likewise
	pace    *Pace      // likewise; nil: nobody asks

	activity
	received, sent atomic.Int64 // of what the kernel doesn't tell more of: unix sockets

	remote, local net.Addr // as a PROXY header has them; nil: the connection's own
	believed      bool     // the header is from somebody who is named as trusted
}

// newConn wraps c. Go has set TCP_NODELAY on it already.
func newConn(c net.Conn, t *traffic) *Conn {
	if tc, ok := c.(*net.TCPConn); ok {
		_ = tc.SetKeepAliveConfig(keepAlive) // fails when the peer is gone already
	}
	wrapped := &Conn{Conn: c, traffic: t}
	wrapped.last.Store(int64(time.Since(processStart)))
	return wrapped
}

// countReceived and countSent take notice of bytes that have moved.
func (c *Conn) countReceived(n int) {
	if n <= 0 {
		return
	}
	c.last.Store(int64(time.Since(processStart)))
	c.received.Add(int64(n))
	if c.traffic != nil {
		c.traffic.received.Add(uint64(n))
	}
}

func (c *Conn) countSent(n int64) {
	if n <= 0 {
		return
	}
	c.last.Store(int64(time.Since(processStart)))
	c.sent.Add(n)
	if c.traffic != nil {
		c.traffic.sent.Add(uint64(n))
	}
}

func (c *Conn) Read(p []byte) (int, error) {
	var n int
	var err error
	if c.noWait {
		n, err = c.readNow(p)
	} else {
		n, err = c.Conn.Read(p)
	}
	c.countReceived(n)
	if c.pace != nil {
		c.pace.note(n)
	}
	return n, err
}

func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.countSent(int64(n))
	return n, err
}

// RemoteAddr is the client's, behind the balancer that told of it.
func (c *Conn) RemoteAddr() net.Addr {
	if c.remote != nil {
		return c.remote
	}
	return c.Conn.RemoteAddr()
}

// LocalAddr is where the client has connected to.
func (c *Conn) LocalAddr() net.Addr {
	if c.local != nil {
		return c.local
	}
	return c.Conn.LocalAddr()
}

// CloseWrite ends our direction: the peer reads EOF and may go on writing.
func (c *Conn) CloseWrite() error { return CloseWrite(c.Conn) }

// writeBuffers keeps the single system call that net.Buffers makes on a bare
// TCP or unix connection and would not make on a wrapped one.
func (c *Conn) writeBuffers(bufs *net.Buffers) (int64, error) {
	n, err := bufs.WriteTo(c.Conn)
	c.countSent(n)
	return n, err
}

// CloseWrite ends one direction of c and leaves the other open. On TLS that is
// a close_notify alert: the TCP connection below stays whole. It fails with
// errors.ErrUnsupported where c knows no such thing.
func CloseWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// WriteBuffers writes all of bufs, with one system call where c allows it, and
// consumes it as net.Buffers.WriteTo does. It does not modify the bytes.
func WriteBuffers(c net.Conn, bufs *net.Buffers) (int64, error) {
	if wrapped, ok := c.(*Conn); ok {
		return wrapped.writeBuffers(bufs)
	}
	return bufs.WriteTo(c)
}

// relayBufferBytes is what one direction of a raw splice moves at a time.
const relayBufferBytes = 32 << 10

// Relay copies src to dst until EOF and then closes dst for writing, so that
// the other direction can go on. It returns nil after an EOF. Two of them, one a
// direction, make a raw splice, whose owner closes both connections at the end.
// While it waits for bytes it holds no buffer (see ReadFirst).
func Relay(dst, src net.Conn) error { return RelayShown(dst, src, nil) }

// RelayShown is Relay, and calls show with each piece before it is written; b is valid during the call. A nil show
// is none.
func RelayShown(dst, src net.Conn, show func(b []byte)) error {
	var buf []byte
	for {
		var n int
		var err error
		buf, n, err = ReadNext(src, buf, relayBufferBytes)
		if errors.Is(err, io.EOF) {
			return CloseWrite(dst)
		}
		if err != nil {
			return err
		}
		if show != nil {
			show(buf[:n])
		}
		if _, err = dst.Write(buf[:n]); err != nil {
			PutBuffer(buf)
			return err
		}
	}
}

// A TLS connection half-closes as a plain one does.
var _ interface{ CloseWrite() error } = (*tls.Conn)(nil)

// Abort closes the connection below TLS, so that it does not wait for anything, as closing
// the TLS connection would while a write is stuck.
func Abort(c net.Conn) error {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return c.Close()
}

// ResetWhenCut chooses what the peer of c sees when c is closed, by the end of the process
// too: a reset, or an ordinary end. Who relays bytes whose end has a meaning lets it be a
// reset until the end has come. Other connections than TCP only know an ordinary end.
func ResetWhenCut(c net.Conn, reset bool) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if wrapped, ok := c.(*Conn); ok {
		c = wrapped.Conn
	}
	linger := -1
	if reset {
		linger = 0
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(linger) // fails when the connection is gone
	}
}

// activity records when a connection last moved a byte.
type activity struct {
	last atomic.Int64 // since processStart
}

var processStart = time.Now()

func (a *activity) note() { a.last.Store(int64(time.Since(processStart))) }

// LastActive implements LimitedConn.
func (a *activity) LastActive() time.Time { return processStart.Add(time.Duration(a.last.Load())) }
