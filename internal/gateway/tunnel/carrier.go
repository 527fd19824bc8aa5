package tunnel

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/tunnel"
)

// Carrier carries connections between two gateways of another protocol, which know each other, as
// a tunnel would: what is written to one end is compressed as a stream with history. It has no
// listener and connects to nobody: it is handed connections.
type Carrier struct{ g *Gateway }

// NewCarrier returns a carrier. Of the configuration it takes what is about codecs and memory.
func NewCarrier(cfg Config) *Carrier {
	g := NewGateway(cfg)
	g.rule, g.growth = "link", linkGrowth
	go g.tendHistories()
	return &Carrier{g}
}

// Gateway is what Metrics shows.
func (c *Carrier) Gateway() *Gateway { return c.g }

// Close ends the care for idle histories. Connections are their owners' to close.
func (c *Carrier) Close() { c.g.cancel() }

// Enter says hello on a connection to the other gateway and waits for its answer. What it returns
// takes the place of conn. An error leaves conn to the caller, fit for nothing but to be closed.
func (c *Carrier) Enter(conn net.Conn) (net.Conn, error) {
	l, err := c.g.greet(conn)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte{byte(wire.Open)}); err != nil {
		l.free()
		return nil, err
	}
	return c.carry(l), nil
}

// IsHello reports whether a connection that begins with b begins with a hello.
func (c *Carrier) IsHello(b byte) bool { return wire.BeginsHello(b) }

// Accept answers the hello of another gateway, whose first bytes were read already, and is like
// Enter then.
func (c *Carrier) Accept(conn net.Conn, ahead []byte) (net.Conn, error) {
	l, err := c.g.answerAndWait(conn, ahead, c.g.cfg.HelloTimeout)
	if err != nil {
		c.g.sayBad(conn, err)
		return nil, err
	}
	return c.carry(l), nil
}

func (c *Carrier) carry(l *link) net.Conn {
	k := &carried{}
	k.g, k.session.link = c.g, l.conn
	c.g.enroll(&k.session, l)
	return k
}

// carried is a connection over a link: a session whose local side is whoever holds it.
type carried struct {
	session

	reading sync.Mutex // held by Read
	got     pending    // what is left of frames that have come
	at      int        // in got
	err     error      // of reading; it stays

	stuck   atomic.Bool // a Write failed
	leaving sync.Once
}

// Read returns bytes as soon as there are some. It waits without a buffer.
func (c *carried) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for c.at == len(c.got.b) {
		c.got.free()
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
	f, err := c.in.next(func() error { return nil })
	switch {
	case err != nil:
	case f.Kind == wire.Fin:
		c.in.over = true
		c.gotFin.Store(true)
		return io.EOF
	default:
		err = c.handle(&c.got, f)
	}
	if err == nil {
		return nil
	}
	c.got.free() // what a frame held before it turned out to be damaged
	if !c.sentFin.Load() {
		c.logEnd(err)
	}
	if err == io.EOF { // of the connection below: the peer would have said FIN
		return io.ErrUnexpectedEOF
	}
	return err
}

// Write sends p, all of it before it returns.
func (c *carried) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+pieceBytes)]
		if err := c.out.piece(append(gateway.GetBuffer(len(part)), part...), len(part)); err != nil {
			c.stuck.Store(true)
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// Close says that nothing comes any more, where the peer took what there was, ends a Read, and gives
// everything back.
func (c *carried) Close() error {
	err := net.ErrClosed
	c.leaving.Do(func() {
		_ = c.link.SetWriteDeadline(time.Now().Add(goodbye))
		if !c.stuck.Load() {
			_ = c.out.finish()
		}
		err = c.link.Close()
		c.out.end(nil)
		c.g.forget(&c.session)
		c.reading.Lock()
		defer c.reading.Unlock()
		c.got.free()
		c.at, c.err = 0, net.ErrClosed
		c.in.free()
	})
	return err
}

func (c *carried) LocalAddr() net.Addr                { return c.link.LocalAddr() }
func (c *carried) RemoteAddr() net.Addr               { return c.link.RemoteAddr() }
func (c *carried) SetDeadline(t time.Time) error      { return c.link.SetDeadline(t) }
func (c *carried) SetReadDeadline(t time.Time) error  { return c.link.SetReadDeadline(t) }
func (c *carried) SetWriteDeadline(t time.Time) error { return c.link.SetWriteDeadline(t) }
