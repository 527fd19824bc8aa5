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

// Enter makes conn, a connection to another gateway, a link for a client (Owner.Client): it sends a hello, and waits
// for the answer until ctx ends. The returned connection replaces conn. After an error the caller must close conn.
func (e *Endpoint) Enter(ctx context.Context, conn net.Conn, client string) (net.Conn, error) {
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
	return carry(l, client), nil
}

// IsHello reports whether a connection that begins with b may begin with a hello; see [wire.BeginsHello].
func (e *Endpoint) IsHello(b []byte) bool { return wire.BeginsHello(b) }

// Accept makes conn a link by answering the hello of another gateway, of which ahead has been read already. It logs and
// counts errors. The returned connection replaces conn. After an error the caller must close conn.
func (e *Endpoint) Accept(conn net.Conn, ahead []byte) (net.Conn, error) {
	l, err := e.Answer(conn, ahead, e.cfg.HelloTimeout)
	if err != nil {
		e.HelloFailed(conn, err)
		return nil, err
	}
	return carry(l, memory.AddressOf(gateway.BudgetAddress(conn))), nil
}

// carried is a link as a net.Conn.
type carried struct {
	l *Link

	reading sync.Mutex // held by Read
	got     Gathered   // received bytes
	at      int        // number of those that Read has returned
	err     error      // of reading; all later Reads return it

	stuck    atomic.Bool // a Write failed, perhaps within a frame
	leaving  sync.Once
	aborting sync.Once
}

func carry(l *Link, client string) *carried {
	c := &carried{l: l, got: Gathered{of: l}}
	l.Start(Owner{Client: client, Abort: c.abort})
	return c
}

// abort resets the connection below the link.
func (c *carried) abort() { c.aborting.Do(func() { _ = gateway.Abort(c.l.conn) }) }

// Read implements net.Conn. While it waits it holds no buffer.
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

// receive reads the next frame. After FIN it returns io.EOF.
func (c *carried) receive() error {
	fin, err := c.next()
	if fin {
		return io.EOF
	}
	if err == nil {
		return nil
	}
	c.got.Free() // bytes of a frame that turned out to be damaged
	if !c.l.Finished() {
		c.l.LogEnd(err)
	}
	if err == io.EOF { // of the connection below, without a FIN
		return io.ErrUnexpectedEOF
	}
	return err
}

// next adds the bytes of the next frame to got, or reports FIN. A panic ends the link, and becomes an error.
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

// Write implements net.Conn.
func (c *carried) Write(p []byte) (n int, err error) { return c.write(p, false) }

// WriteSecret is like Write, but sends p uncompressed, and keeps it out of the history.
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

// goodbye limits the time to send FIN in Close.
const goodbye = 5 * time.Second

// Close implements net.Conn. It sends FIN first, unless a Write has failed. A blocked Read returns.
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

// Extension returns the content of an extension that both hellos have, as the peer has sent it.
func (c *carried) Extension(e wire.Extension) (content string, ok bool) {
	if _, ours := (wire.Hello{Extensions: c.l.e.cfg.Extensions}).Find(e); !ours {
		return "", false
	}
	return c.l.theirs.Find(e)
}

// Share sets the functions that drop the caller's state together with the link's histories. It may be called once.
func (c *carried) Share(s Sharing) { c.l.sharing.Store(&s) }

// Take takes n bytes of the memory for histories, for state of the caller, and reports whether there were so many. Give
// gives them back.
func (c *carried) Take(n int64) bool { return c.l.client.lend(&c.l.lent, n) }

// Give gives back n bytes of Take.
func (c *carried) Give(n int64) { c.l.client.giveBack(&c.l.lent, n) }

// NetConn returns the connection below the link.
func (c *carried) NetConn() net.Conn { return c.l.conn }

func (c *carried) LocalAddr() net.Addr                { return c.l.conn.LocalAddr() }
func (c *carried) RemoteAddr() net.Addr               { return c.l.conn.RemoteAddr() }
func (c *carried) SetDeadline(t time.Time) error      { return c.l.conn.SetDeadline(t) }
func (c *carried) SetReadDeadline(t time.Time) error  { return c.l.conn.SetReadDeadline(t) }
func (c *carried) SetWriteDeadline(t time.Time) error { return c.l.conn.SetWriteDeadline(t) }
