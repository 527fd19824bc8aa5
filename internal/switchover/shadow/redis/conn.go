package redis

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

type conn struct {
	net.Conn
	in        []byte
	scanner   frameScanner
	deadlines *deadlines // records the times to live that scripts have set
}

// Dial connects to a target and logs in as its own user.
func (p *Protocol) Dial(ctx context.Context, t *shadow.Target) (shadow.Conn, error) {
	c, err := dial(ctx, t.Upstream)
	if err != nil {
		return nil, err
	}
	c.deadlines = &p.deadlines
	return c, nil
}

func dial(ctx context.Context, up endpoint.Upstream) (*conn, error) {
	raw, err := up.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	c := &conn{Conn: raw}
	if up.Password == "" {
		return c, nil
	}
	args := []string{"AUTH", up.User, up.Password}
	if up.User == "" {
		args = []string{"AUTH", up.Password}
	}
	frame, err := c.roundTrip(resp.AppendCommand(nil, args...), time.Now().Add(loginTime))
	if err == nil && frame[0] == resp.Error {
		err = fmt.Errorf("login refused: %s", frame[1:len(frame)-2])
	}
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return c, nil
}

const loginTime = 10 * time.Second

func (c *conn) roundTrip(request []byte, deadline time.Time) ([]byte, error) {
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	return c.frame()
}

// Send sends operations in one piece.
func (c *conn) Send(ops []*shadow.Operation, deadline time.Time, answered func(int, shadow.Answer)) error {
	return shadow.Pipeline(c, c.Close, ops, deadline, c.answer, answered)
}

// answer reads an operation's replies. The last one is its answer.
func (c *conn) answer(op *shadow.Operation, began time.Time) (a shadow.Answer, err error) {
	var frame []byte
	for range max(op.Replies, 1) {
		if frame, err = c.frame(); err != nil {
			return a, err
		}
	}
	took := time.Since(began)
	o, ok := op.Private.(*opData)
	if !ok {
		a = answerOf(frame, op.Form)
		a.Took = took
		return a, nil
	}
	var found []time.Duration
	if len(o.queried) > 0 {
		frame = bytes.Clone(frame)
		if found, err = c.readTTLs(o); err != nil {
			return a, err
		}
	}
	a = o.answer(frame, op.Form, found)
	a.Took = took
	return a, nil
}

// frame returns the next reply, valid until the next call.
func (c *conn) frame() ([]byte, error) {
	for {
		n, err := c.scanner.scan(c.in)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			frame := c.in[:n]
			if c.in = c.in[n:]; len(c.in) == 0 && (cap(c.in) < shadow.ReadBytes/2 || n > shadow.ReadBytes) {
				c.in = nil
			}
			if frame[0] != resp.Push {
				return frame, nil
			}
			continue
		}
		if c.in, err = shadow.ReadMore(c, c.in); err != nil {
			return nil, err
		}
	}
}
