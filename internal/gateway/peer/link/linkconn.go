package link

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// Enter says hello on a connection to another gateway and waits for its answer, no longer than ctx lasts. What it
// returns takes the place of conn. An error leaves conn to the caller, fit for nothing but to be closed.
func (e *Endpoint) Enter(ctx context.Context, conn net.Conn) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	l, err := e.Greet(conn)
	if err == nil {
		if err = l.Open(); err != nil {
			l.Free()
		}
	}
	if !stop() && err == nil { // the deadline has passed, or is about to
		l.Free()
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return carry(l), nil
}

// IsHello reports whether a connection that begins with b may begin with a hello; see [wire.BeginsHello].
func (e *Endpoint) IsHello(b []byte) bool { return wire.BeginsHello(b) }

// Accept answers the hello of another gateway, whose first bytes were read already, and is like
// Enter then.
func (e *Endpoint) Accept(conn net.Conn, ahead []byte) (net.Conn, error) {
	l, err := e.Answer(conn, ahead, e.cfg.HelloTimeout)
	if err != nil {
		e.HelloFailed(conn, err)
		return nil, err
	}
	return carry(l), nil
}

// carried is a link as the connection that it carries.
type carried struct {
	l *Link

	reading sync.Mutex // held by Read
	got     Gathered   // what is left of frames that have come
	at      int        // in got
	err     error      // of reading; it stays

	stuck    atomic.Bool // a Write failed
	leaving  sync.Once
	aborting sync.Once
}

func carry(l *Link) *carried {
	c := &carried{l: l, got: Gathered{of: l}}
	l.Start(Owner{Abort: c.abort})
	return c
}

// abort cuts the connection below.
func (c *carried) abort() { c.aborting.Do(func() { _ = gateway.Abort(c.l.conn) }) }

// Read returns bytes as soon as there are some. It waits without a buffer.
func (c *carried) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for c.at == len(c.got.b) {
		c.got.Free()
		c.at = 0
		if c.err == nil {
			c.err = c.receive()
		}
		if c.err != nil {
			return 0, c.err
		}
	}
	n := copy(p, c.got.b[c.at:])
	c.at += n
	return n, nil
}

// receive takes the next frame. A FIN is the end of what is read.
func (c *carried) receive() error {
	fin, err := c.next()
	if fin {
		return io.EOF
	}
	if err == nil {
		return nil
	}
	c.got.Free() // what a frame held before it turned out to be damaged
	if !c.l.Finished() {
		c.l.LogEnd(err)
	}
	if err == io.EOF { // of the connection below: the peer would have said FIN
		return io.ErrUnexpectedEOF
	}
	return err
}

// next adds the next frame to what is there, unless it is a FIN. A panic is an error, which ends the link.
func (c *carried) next() (fin bool, err error) {
	defer gateway.CatchPanic(c.l.e.cfg.Log, c.l.e.cfg.Stats, func() {
		c.abort()
		fin, err = false, gateway.ErrPanicked
	})
	f, err := c.l.Next(func() error { return nil })
	if err != nil || f.Kind == wire.Fin {
		return err == nil, err
	}
	return false, c.got.Add(f)
}

// Write sends p, all of it before it returns.
func (c *carried) Write(p []byte) (n int, err error) { return c.write(p, false) }

// WriteSecret is Write for bytes that must not enter the history. They are not compressed.
func (c *carried) WriteSecret(p []byte) (n int, err error) { return c.write(p, true) }

func (c *carried) write(p []byte, secret bool) (n int, err error) {
	defer gateway.CatchPanic(c.l.e.cfg.Log, c.l.e.cfg.Stats, func() {
		c.stuck.Store(true)
		c.abort()
		err = gateway.ErrPanicked
	})
	for n < len(p) {
		part := p[n:min(len(p), n+PieceBytes)]
		if err := c.l.out.piece(append(memory.GetBuffer(len(part)), part...), len(part), secret); err != nil {
			c.stuck.Store(true)
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// goodbye is the time that a peer has to take a last frame.
const goodbye = 5 * time.Second

// Close says that nothing comes any more, where the peer took what there was, ends a Read, and gives
// everything back.
func (c *carried) Close() error {
	err := net.ErrClosed
	c.leaving.Do(func() {
		_ = c.l.conn.SetWriteDeadline(time.Now().Add(goodbye))
		if !c.stuck.Load() {
			_ = c.l.Finish()
		}
		err = c.l.conn.Close()
		c.l.End()
		c.l.Leave()
		c.reading.Lock()
		defer c.reading.Unlock()
		c.got.Free()
		c.at, c.err = 0, net.ErrClosed
		c.l.Free()
	})
	return err
}

// Extension returns the content of an extension of the peer's hello. There is none that ours did not have: the peer has not heard of it.
func (c *carried) Extension(e wire.Extension) (content string, ok bool) {
	if _, ours := (wire.Hello{Extensions: c.l.e.cfg.Extensions}).Find(e); !ours {
		return "", false
	}
	return c.l.theirs.Find(e)
}

// Share has what is carried be forgotten with the link's histories. It is called once.
func (c *carried) Share(s Sharing) { c.l.sharing.Store(&s) }

// Take takes n bytes of the endpoint's bound on histories, for what is carried to remember, if they are to be had. Give gives them back.
func (c *carried) Take(n int64) bool { return c.l.e.history.lend(&c.l.lent, n) }

// Give gives back n bytes that Take has taken.
func (c *carried) Give(n int64) { c.l.e.history.giveBack(&c.l.lent, n) }

// NetConn returns the connection below the link.
func (c *carried) NetConn() net.Conn { return c.l.conn }

func (c *carried) LocalAddr() net.Addr                { return c.l.conn.LocalAddr() }
func (c *carried) RemoteAddr() net.Addr               { return c.l.conn.RemoteAddr() }
func (c *carried) SetDeadline(t time.Time) error      { return c.l.conn.SetDeadline(t) }
func (c *carried) SetReadDeadline(t time.Time) error  { return c.l.conn.SetReadDeadline(t) }
func (c *carried) SetWriteDeadline(t time.Time) error { return c.l.conn.SetWriteDeadline(t) }
