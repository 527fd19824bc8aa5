package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// conn is a connection to a target.
type conn struct {
	target *shadow.Target
	looker *looker
	pid    atomic.Uint32
	in     []byte

	mu     sync.Mutex
	net    net.Conn // nil before the first operation
	closed bool
}

// Close ends the connection, also while it is made.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.net == nil {
		return nil
	}
	return c.net.Close()
}

// Send sends operations in one piece. A latency is from the first byte sent to the last of the answer.
func (c *conn) Send(ops []*shadow.Operation, deadline time.Time, answered func(int, shadow.Answer)) error {
	done := 0
	if ops[0].Form == formStart || c.net == nil {
		began := time.Now()
		if err := c.connect(ops[0], deadline); err != nil {
			return err
		}
		if ops[0].Form == formStart {
			answered(0, shadow.Answer{Took: time.Since(began)})
			done = 1
		}
	}
	if done == len(ops) {
		return nil
	}
	return c.send(ops[done:], deadline, func(i int, a shadow.Answer) { answered(i+done, a) })
}

// connect logs in as a client did.
func (c *conn) connect(op *shadow.Operation, deadline time.Time) error {
	var parameters map[string]string
	if op.Form == formStart {
		var err error
		if parameters, err = pg.StartupParameters(op.Request); err != nil {
			return err
		}
		if parameters["database"] == "" {
			parameters["database"] = parameters["user"]
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	made, err := connect(ctx, c.target.Upstream, parameters)
	if err != nil {
		return err
	}
	own, err := made.Hijack()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.net = own.Conn
	c.pid.Store(own.PID)
	if c.closed {
		return errors.Join(net.ErrClosed, c.net.Close())
	}
	return nil
}

func (c *conn) send(ops []*shadow.Operation, deadline time.Time, answered func(int, shadow.Answer)) error {
	if err := c.net.SetDeadline(deadline); err != nil {
		return err
	}
	bufs := make(net.Buffers, 0, len(ops))
	size := 0
	for _, op := range ops {
		bufs = append(bufs, op.Request)
		size += len(op.Request)
	}
	began := time.Now()
	written := make(chan error, 1)
	if size < inOneGo {
		_, err := bufs.WriteTo(c.net)
		written <- err
	} else { // the server may not read on before its answers are read
		go func() {
			_, err := bufs.WriteTo(c.net)
			written <- err
		}()
	}
	for i, op := range ops {
		a, err := c.answer(op, began)
		if err != nil {
			return errors.Join(err, c.Close(), <-written)
		}
		answered(i, a)
	}
	return <-written
}

// inOneGo bytes fit into any socket's buffers.
const inOneGo = 64 << 10

// answer reads what a target says to an operation.
func (c *conn) answer(op *shadow.Operation, began time.Time) (shadow.Answer, error) {
	if op.Form == formEnd {
		_, err := io.Copy(io.Discard, c.net) // the server closes when it has given up all locks
		return shadow.Answer{Took: time.Since(began)}, err
	}
	d := digest{form: op.Form}
	for left := max(op.Replies, 1); left > 0; {
		m, err := c.message()
		if err != nil {
			if d.code != "" {
				err = errors.Join(errors.New("error "+d.code), err)
			}
			return shadow.Answer{}, err
		}
		d.add(m)
		if m.Type == pg.ReadyForQuery {
			left--
		}
	}
	return d.answer(time.Since(began)), nil
}

// message returns the next one, which is valid until the next call.
func (c *conn) message() (pg.Message, error) {
	for {
		m, ok, err := pg.Cut(c.in)
		if err != nil {
			return m, err
		}
		if ok {
			if c.in = c.in[len(m.Raw):]; len(c.in) == 0 && cap(c.in) < readBytes/2 {
				c.in = nil
			}
			return m, nil
		}
		if err := c.fill(); err != nil {
			return m, err
		}
	}
}

const readBytes = 16 << 10

func (c *conn) fill() error {
	if cap(c.in)-len(c.in) < readBytes/4 {
		c.in = append(make([]byte, 0, 2*len(c.in)+readBytes), c.in...)
	}
	n, err := c.net.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	if n > 0 {
		return nil
	}
	return err
}
