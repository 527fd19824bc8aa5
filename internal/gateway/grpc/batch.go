package grpc

import (
	"bufio"
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// A connection's reads and writes are batched. x/net's HTTP/2 writes each frame by itself,
// and its server reads each by itself, header and payload: a small call would take a dozen
// system calls on its way, where two or three do.
const (
	batchRead  = 4 << 10  // read ahead
	batchWrite = 64 << 10 // written and not yet handed to the system; more waits
	smallBatch = 1 << 10  // is worth to look whether there is more
)

// closeTime is how long what was written has to leave when the connection is closed.
const closeTime = time.Second

// batchConn is a connection whose writes are handed to the system by a goroutine of its own,
// all that there is at a time. An error of one is returned by a later write, as it is of
// those that the system still had to send.
type batchConn struct {
	net.Conn
	ahead  []byte        // was read already, and comes first
	reader *bufio.Reader // nil: the connection reads ahead itself
	read   atomic.Int64  // when something came last, in nanoseconds since epoch
	done   chan struct{} // closed when the connection is

	mu      sync.Mutex
	changed sync.Cond // anything below
	pending []byte    // a pooled buffer, nil when there is nothing
	err     error     // of writing
	closed  bool
}

// batchTLS shows the connection's state, for which x/net looks.
type batchTLS struct {
	*batchConn
	state func() tls.ConnectionState
}

func (c batchTLS) ConnectionState() tls.ConnectionState { return c.state() }

// epoch is what the times of reads count from.
var epoch = time.Now()

// newBatchConn wraps a connection, and returns what is to be used and what is below it. It must be
// closed, to end its goroutine.
func newBatchConn(c net.Conn) (net.Conn, *batchConn) {
	b := &batchConn{Conn: c, done: make(chan struct{})}
	b.changed.L = &b.mu
	b.read.Store(int64(time.Since(epoch)))
	go b.send()
	if t, ok := c.(*tls.Conn); ok {
		return batchTLS{b, t.ConnectionState}, b
	}
	b.reader = bufio.NewReaderSize(c, batchRead)
	return b, b
}

func (b *batchConn) Read(p []byte) (n int, err error) {
	if len(b.ahead) > 0 {
		n = copy(p, b.ahead)
		b.ahead = b.ahead[n:]
	} else if b.reader == nil {
		n, err = b.Conn.Read(p)
	} else {
		n, err = b.reader.Read(p)
	}
	if n > 0 {
		b.read.Store(int64(time.Since(epoch)))
	}
	return n, err
}

// silence is how long nothing has come.
func (b *batchConn) silence() time.Duration { return time.Since(epoch) - time.Duration(b.read.Load()) }

// Write takes p over, and waits while there is too much already.
func (b *batchConn) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.err == nil && !b.closed && len(b.pending) > 0 && len(b.pending)+len(p) > batchWrite {
		b.changed.Wait()
	}
	switch {
	case b.closed:
		return 0, net.ErrClosed
	case b.err != nil:
		return 0, b.err
	}
	b.pending = appendPooled(b.pending, p)
	b.changed.Broadcast()
	return len(p), nil
}

// appendPooled is append for a pooled buffer.
func appendPooled(b, p []byte) []byte {
	if need := len(b) + len(p); need > cap(b) {
		grown := append(gateway.GetBuffer(max(need, 4<<10, 2*cap(b))), b...)
		gateway.PutBuffer(b)
		b = grown
	}
	return append(b, p...)
}

// send hands over what is written until the connection is closed.
func (b *batchConn) send() {
	defer close(b.done)
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.err == nil {
		switch {
		case len(b.pending) > 0:
			b.sendPending()
		case b.closed:
			_ = b.Conn.Close()
			return
		default:
			b.changed.Wait()
		}
	}
	_ = b.Conn.Close()
}

// sendPending writes all that there is. Behind a small piece there is often another, from
// calls that are about to run. b.mu is held, but not while it writes.
func (b *batchConn) sendPending() {
	if len(b.pending) < smallBatch {
		b.mu.Unlock()
		runtime.Gosched()
		b.mu.Lock()
	}
	batch := b.pending
	b.pending = nil
	b.mu.Unlock()
	_, err := b.Conn.Write(batch)
	gateway.PutBuffer(batch)
	b.mu.Lock()
	b.err = err
	b.changed.Broadcast()
}

// Close ends reads at once, and the connection when what was written has gone.
func (b *batchConn) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		_ = b.Conn.SetReadDeadline(time.Now())
		_ = b.Conn.SetWriteDeadline(time.Now().Add(closeTime))
		b.changed.Broadcast()
	}
	return nil
}
