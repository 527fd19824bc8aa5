package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// keepAlive detects that the peer of an idle connection is gone after about two minutes: 30 s of silence, then three
// probes. A gateway holds two connections for each client, so it must not keep connections without a peer for hours,
// the default of operating systems.
var keepAlive = net.KeepAliveConfig{
	Enable:   true,
	Idle:     30 * time.Second,
	Interval: 30 * time.Second,
	Count:    3,
}

// Conn counts the bytes of a connection as they move. It is always below TLS, so TLS records are included. As with any
// net.Conn, its methods may be called from several goroutines.
type Conn struct {
	net.Conn
	traffic *traffic   // nil: not counted
	first   *firstRead // state of ReadFirst; belongs to the reading goroutine
	noWait  bool       // set during ReadReady; belongs to the reading goroutine
	pace    *Pace      // belongs to the reading goroutine; nil: not measured

	activity
	received, sent atomic.Int64 // for connections that the kernel keeps no counts of, such as unix sockets

	remote, local net.Addr // from a PROXY header; nil: those of the connection
	proxyTrusted  bool     // the header is from a balancer named as trusted, or came by a unix socket
}

// newConn wraps c. Go has set TCP_NODELAY on it already.
func newConn(c net.Conn, t *traffic) *Conn {
	if tc, ok := c.(*net.TCPConn); ok {
		_ = tc.SetKeepAliveConfig(keepAlive) // fails when the peer is gone already
	}
	wrapped := &Conn{Conn: c, traffic: t}
	wrapped.touch()
	return wrapped
}

// accepted returns the connection that the listener has accepted: below TLS, and below the link if c is a stream of
// a link.
func accepted(c net.Conn) net.Conn {
	type carrying interface{ NetConn() net.Conn }
	for {
		switch v := c.(type) {
		case *Conn:
			if _, isStream := v.Conn.(carrying); !isStream {
				return v
			}
			c = v.Conn
		case carrying:
			c = v.NetConn()
		default:
			return c
		}
	}
}

// NewConn returns a Conn for a stream within another connection, which counts the stream's bytes already. The other
// functions of this package measure only connections that are a Conn.
func NewConn(stream net.Conn) *Conn { return newConn(stream, nil) }

// Dial connects to up like [endpoint.Upstream.Dial], with a *Conn below TLS. stats counts the bytes of a connection
// that serves a client; it is nil for other connections. If the connection has reached a listener of the gateway
// that stats belongs to, the error wraps ErrOwnAddress too.
func Dial(ctx context.Context, up endpoint.Upstream, stats *Stats) (net.Conn, error) {
	return up.DialWith(ctx, func(raw net.Conn) (net.Conn, error) {
		if stats.isOwn(raw) {
			return nil, ErrOwnAddress
		}
		return newConn(raw, stats.side(sideUpstream)), nil
	})
}

// countReceived and countSent count bytes that have moved, and record that the connection is active.
func (c *Conn) countReceived(n int) {
	if n <= 0 {
		return
	}
	c.touch()
	c.received.Add(int64(n))
	if c.traffic != nil {
		c.traffic.received.Add(uint64(n))
	}
	if c.pace != nil {
		c.pace.record(n)
	}
}

func (c *Conn) countSent(n int64) {
	if n <= 0 {
		return
	}
	c.touch()
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
	return n, err
}

func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.countSent(int64(n))
	return n, err
}

// RemoteAddr returns the client's address. Behind a balancer that is the address in its PROXY header.
func (c *Conn) RemoteAddr() net.Addr {
	if c.remote != nil {
		return c.remote
	}
	return c.Conn.RemoteAddr()
}

// LocalAddr returns the address that the client connected to.
func (c *Conn) LocalAddr() net.Addr {
	if c.local != nil {
		return c.local
	}
	return c.Conn.LocalAddr()
}

// CloseWrite closes the connection for writing: the peer reads EOF and may go on writing.
func (c *Conn) CloseWrite() error { return CloseWrite(c.Conn) }

// writeBuffers writes bufs to the wrapped connection directly, since net.Buffers makes a single system call only on a
// bare TCP or unix connection.
func (c *Conn) writeBuffers(bufs *net.Buffers) (int64, error) {
	n, err := bufs.WriteTo(c.Conn)
	c.countSent(n)
	return n, err
}

// CloseWrite ends one direction of c and leaves the other open. On TLS that is a close_notify alert: the TCP
// connection below stays whole. It returns errors.ErrUnsupported if c can't be half-closed.
func CloseWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// WriteBuffers writes all of bufs, with one system call if c allows it, and consumes it as net.Buffers.WriteTo does.
// It does not modify the bytes.
func WriteBuffers(c net.Conn, bufs *net.Buffers) (int64, error) {
	if wrapped, ok := c.(*Conn); ok {
		return wrapped.writeBuffers(bufs)
	}
	return bufs.WriteTo(c)
}

// A TLS connection can be half-closed, too.
var _ interface{ CloseWrite() error } = (*tls.Conn)(nil)

// belowTLS returns the connection below TLS; c itself if it has no TLS.
func belowTLS(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}

// Abort closes the connection below TLS. Unlike closing the TLS connection it does not wait for a write that
// is stuck.
func Abort(c net.Conn) error { return belowTLS(c).Close() }

// SetResetOnClose chooses whether the peer of c gets a reset or an EOF when c is closed, also if the process dies. A
// relay whose peers act on an EOF keeps reset set until it has received an EOF itself, so that its own failure does
// not look like one. Connections other than TCP always end with an EOF.
func SetResetOnClose(c net.Conn, reset bool) {
	c = belowTLS(c)
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
	last atomic.Int64 // time since processStart
}

var processStart = time.Now()

func (a *activity) touch() { a.last.Store(int64(time.Since(processStart))) }

// LastActive implements LimitedConn.
func (a *activity) LastActive() time.Time { return processStart.Add(time.Duration(a.last.Load())) }

// firstPeekBytes is the size of the buffer that a connection holds while it waits, if it can't wait without a
// buffer. TLS connections can't; their own buffers are larger than this one.
const firstPeekBytes = 512

// ReadFirst waits until c has bytes, and only then takes a buffer with room for size bytes from the pool and
// reads into it. So a waiting connection holds no buffer. It returns the buffer at its full length and the
// number of bytes read. The caller owns the buffer and gives it back with PutBuffer; on an error buf is nil.
func ReadFirst(c net.Conn, size int) (buf []byte, n int, err error) {
	return ReadNext(c, nil, size)
}

// BufferReader is a connection in memory that implements ReadNext itself.
type BufferReader interface {
	ReadNext(spare []byte, size int) (buf []byte, n int, err error)
}

// ReadNext is ReadFirst for a caller that still has a buffer, spare. If bytes are there already, they are
// read into spare; otherwise spare goes back to the pool. spare is nil or has room for size bytes; ReadNext
// takes ownership of it.
func ReadNext(c net.Conn, spare []byte, size int) (buf []byte, n int, err error) {
	if wrapped, ok := c.(*Conn); ok && (wrapped.first != nil || wrapped.canWait()) {
		wrapped.first.size, wrapped.first.buf = size, spare
		return wrapped.firstReadResult(wrapped.first.raw.Read(wrapped.first.attempt)) // the runtime's poller waits
	}
	if wrapped, ok := c.(*Conn); ok {
		if b, ok := wrapped.Conn.(BufferReader); ok {
			buf, n, err := b.ReadNext(spare, size)
			wrapped.countReceived(n)
			return buf, n, err
		}
	}
	memory.PutBuffer(spare)
	return readThenGrow(c, size)
}

// firstRead is the state of a connection's ReadFirst. It is allocated once, since a closure and its captures
// would be three allocations for every read.
type firstRead struct {
	raw     syscall.RawConn
	attempt func(fd uintptr) bool // the method read
	size    int                   // room, in bytes, that the caller wants
	buf     []byte                // nil except while it holds ReadNext's spare or its result
	n       int
	err     error
}

// read is called by the runtime's poller when a read may succeed, and reports whether it is done. If there is nothing
// to read, it puts the buffer back into the pool.
func (f *firstRead) read(fd uintptr) bool {
	if f.buf == nil {
		f.buf = memory.GetBuffer(f.size)
	}
	f.n, f.err = readOnce(int(fd), f.buf[:cap(f.buf)])
	if f.err != syscall.EAGAIN {
		return true
	}
	memory.PutBuffer(f.buf)
	f.buf = nil
	return false
}

// canWait reports whether the runtime's poller can wait for c. If so, it sets c.first.
func (c *Conn) canWait() bool {
	raw := c.socket()
	if raw == nil {
		return false
	}
	f := &firstRead{raw: raw}
	f.attempt = f.read
	c.first = f
	return true
}

// firstReadResult returns what first.attempt has read. Like any read it belongs to one goroutine at a time. It is
// separate from ReadNext because the stack frame of ReadNext stays while a connection waits: a few bytes more
// would keep the runtime from shrinking the stack (TestMemoryOfManyConnections).
func (c *Conn) firstReadResult(err error) (buf []byte, n int, _ error) {
	f := c.first
	buf, n = f.buf[:cap(f.buf)], f.n
	f.buf = nil
	if err == nil && f.err != nil {
		err = c.socketError("read", f.err)
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		memory.PutBuffer(buf)
		return nil, 0, err
	}
	c.countReceived(n)
	return buf, n, nil
}

// readOnce reads without waiting.
func readOnce(fd int, p []byte) (int, error) {
	for {
		n, err := directCall(false, fd, p)
		if err != syscall.EINTR { // errors.Is is too slow here
			return max(n, 0), err
		}
	}
}

// readThenGrow waits with a small buffer and moves to a large one when bytes have come.
func readThenGrow(c net.Conn, size int) (buf []byte, n int, err error) {
	small := memory.GetBuffer(firstPeekBytes)[:firstPeekBytes]
	defer memory.PutBuffer(small)
	n, err = c.Read(small)
	if n == 0 {
		if err == nil {
			err = io.ErrNoProgress
		}
		return nil, 0, err
	}
	buf = append(memory.GetBuffer(size), small[:n]...)
	return buf[:cap(buf)], n, nil // if an error came with the bytes, the next read returns it again
}

// PeerClosed reports whether c's peer has reset the connection, or has closed it for writing and all that it sent has
// been read. It does not wait and consumes nothing. It reports false if c is not a Conn with a socket, or TLS over one.
func PeerClosed(c net.Conn) bool {
	wrapped, ok := belowTLS(c).(*Conn)
	if !ok {
		return false
	}
	raw := wrapped.socket()
	if raw == nil {
		return false
	}
	closed := false
	_ = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = err == nil && n == 0 || errors.Is(err, syscall.ECONNRESET)
	})
	return closed
}

// ReadReady reads the bytes that are there already, until p is full, and does not wait. Like any read it
// belongs to one goroutine at a time; deadlines stay unchanged. An error that it returns need not be returned
// again by the next read.
func ReadReady(c net.Conn, p []byte) (n int, err error) {
	below := belowTLS(c)
	wrapped, ok := below.(*Conn)
	if !ok || wrapped.first == nil && !wrapped.canWait() {
		return 0, nil
	}
	wrapped.noWait = true
	defer func() { wrapped.noWait = false }()
	for n < len(p) && err == nil {
		var k int
		k, err = c.Read(p[n:])
		if n += k; below == c { // TLS returns one record at a time, and the first records are small
			break
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // readNow: nothing to read
		err = nil
	}
	return n, err
}

// readNow reads once. If there is nothing to read it returns os.ErrDeadlineExceeded, after which a TLS connection can
// still be read.
func (c *Conn) readNow(p []byte) (n int, err error) {
	waitErr := c.first.raw.Read(func(fd uintptr) bool {
		n, err = readOnce(int(fd), p)
		return true
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err == syscall.EAGAIN:
		return 0, os.ErrDeadlineExceeded
	case err != nil:
		return 0, c.socketError("read", err)
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// socket returns the connection's socket, or nil.
func (c *Conn) socket() syscall.RawConn {
	sc, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// socketError returns the error of a system call on the connection's socket, like those of package net.
func (c *Conn) socketError(call string, err error) error {
	network := "tcp"
	if _, ok := c.Conn.(*net.UnixConn); ok {
		network = "unix"
	}
	return &net.OpError{Op: call, Net: network, Err: os.NewSyscallError(call, err)}
}

// socketCall repeats one system call, read or write, on a connection's socket. Calls that move few bytes avoid the
// overhead of Go's scheduler (see directCall). It belongs to one goroutine at a time.
type socketCall struct {
	conn    *Conn
	raw     syscall.RawConn
	writes  bool // true: it writes without waiting; false: it reads
	attempt func(fd uintptr) bool
	p       []byte
	n       int
	err     error
}

// open prepares calls on c. It reports whether c has a socket of its own; TLS connections have none.
func (s *socketCall) open(c net.Conn) bool {
	wrapped, ok := c.(*Conn)
	if !ok {
		return false
	}
	s.conn, s.raw, s.attempt = wrapped, wrapped.socket(), s.try
	return s.raw != nil
}

// try is called by the runtime's poller when the call may succeed, and reports whether it is done. A write is done even
// if it could write nothing.
func (s *socketCall) try(fd uintptr) bool {
	n, err := directCall(s.writes, int(fd), s.p)
	for err == syscall.EINTR {
		n, err = directCall(s.writes, int(fd), s.p)
	}
	s.n = max(n, 0)
	if err == syscall.EAGAIN {
		return s.writes
	}
	s.err = err
	return true
}

// NonblockingWriter writes without waiting. It belongs to one goroutine at a time, and no other goroutine may write
// meanwhile.
type NonblockingWriter struct{ socketCall }

// NewNonblockingWriter returns nil if c can't write without waiting.
func NewNonblockingWriter(c net.Conn) *NonblockingWriter {
	w := &NonblockingWriter{socketCall{writes: true}}
	if !w.open(c) {
		return nil
	}
	return w
}

// Write writes as much of p as the system takes at once, which may be less than all of it. Write deadlines
// stay unchanged.
func (w *NonblockingWriter) Write(p []byte) (n int, err error) {
	w.p, w.n, w.err = p, 0, nil
	err = w.raw.Write(w.attempt)
	w.p = nil
	if err == nil && w.err != nil {
		err = w.conn.socketError("write", w.err)
	}
	w.conn.countSent(int64(w.n))
	return w.n, err
}

// DirectWriter writes like the connection itself, with less overhead for small writes. It belongs to one goroutine at a
// time, and no other goroutine may write meanwhile.
type DirectWriter struct{ now NonblockingWriter }

// NewDirectWriter returns c itself if it has no socket of its own.
func NewDirectWriter(c net.Conn) io.Writer {
	w := &DirectWriter{}
	if w.now.writes = true; !w.now.open(c) {
		return c
	}
	return w
}

func (w *DirectWriter) Write(p []byte) (n int, err error) {
	n, err = w.now.Write(p)
	if err != nil || n == len(p) {
		return n, err
	}
	more, err := w.now.conn.Write(p[n:]) // waits until the peer takes the rest
	return n + more, err
}

// DirectReader reads like the connection itself, with less overhead for small reads.
type DirectReader struct{ socketCall }

// NewDirectReader returns c itself if it has no socket of its own.
func NewDirectReader(c net.Conn) io.Reader {
	r := &DirectReader{}
	if !r.open(c) {
		return c
	}
	return r
}

func (r *DirectReader) Read(p []byte) (int, error) {
	r.p, r.n, r.err = p, 0, nil
	err := r.raw.Read(r.attempt)
	r.p = nil
	switch {
	case err != nil:
	case r.err != nil:
		err = r.conn.socketError("read", r.err)
	case r.n == 0 && len(p) > 0:
		err = io.EOF
	}
	r.conn.countReceived(r.n)
	return r.n, err
}
