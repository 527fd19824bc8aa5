package trace

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
)

// Command is a traced request of a protocol that carries no trace context, and whose reply another goroutine
// may handle. Its methods are safe for concurrent use. All methods work on a nil Command, which is not
// traced. Calls after End are ignored.
type Command struct {
	mu                 sync.Mutex
	r                  *Request
	upstream           *Upstream
	upstreamAttributes []attribute.KeyValue // attributes of the upstream's span
	ended              bool
	conn               *Connection
}

// Connection tracks the commands of one connection that have not ended, so that they can be ended together
// with it. The zero value has none.
type Connection struct {
	mu   sync.Mutex
	open map[*Command]struct{}
}

// End ends the remaining commands.
func (o *Connection) End() {
	o.mu.Lock()
	left := o.open
	o.open = nil
	o.mu.Unlock()
	for c := range left {
		c.End(ConnectionEnded)
	}
}

func (o *Connection) add(c *Command) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = map[*Command]struct{}{}
	}
	o.open[c] = struct{}{}
}

func (o *Connection) remove(c *Command) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, c)
}

// ConnectionEnded is the class of requests whose connection ended before their reply arrived.
const ConnectionEnded = "connection_ended"

// StartCommand begins the trace of a request that arrived on a connection at now; zero means the current time. It
// returns nil if the request is not traced. waited is how long the request was delayed for lack of memory.
func (t *Tracer) StartCommand(of *Connection, name string, now time.Time, waited time.Duration) *Command {
	if t == nil || !t.draw() {
		return nil
	}
	if now.IsZero() {
		now = time.Now()
	}
	if !t.limit.allow(now) {
		return nil
	}
	r := t.begin(context.Background(), now.Add(-waited), name, nil)
	if waited > 0 {
		r.AddSpan("wait", r.Start, now)
	}
	c := &Command{r: r, conn: of}
	of.add(c)
	return c
}

// SetName replaces the name given to StartCommand, for callers that learn the right one later.
func (c *Command) SetName(name string, attributes ...attribute.KeyValue) {
	c.do(func() {
		c.r.span.SetName(name)
		c.r.Set(attributes...)
	})
}

// Set adds attributes.
func (c *Command) Set(attributes ...attribute.KeyValue) { c.do(func() { c.r.Set(attributes...) }) }

// Now returns the time, or zero if the request is not traced.
func (c *Command) Now() (now time.Time) {
	if c != nil {
		now = time.Now()
	}
	return now
}

// AddSpan adds a span that began at from and lasted for took. It adds none if took is zero.
func (c *Command) AddSpan(name string, from time.Time, took time.Duration, attributes ...attribute.KeyValue) {
	if c != nil && took > 0 {
		c.do(func() { c.r.AddSpan(name, from, from.Add(took), attributes...) })
	}
}

// AddWait adds a span for a wait that began at since and ends now.
func (c *Command) AddWait(since time.Time) {
	if c != nil {
		c.AddSpan("wait", since, time.Since(since))
	}
}

// SetUpstreamAttributes sets the attributes of the upstream's span.
func (c *Command) SetUpstreamAttributes(attributes ...attribute.KeyValue) {
	c.do(func() { c.upstreamAttributes = attributes })
}

// StartUpstream begins the span of a request to the upstream. If the request is sent again, it ends the span of the
// previous attempt.
func (c *Command) StartUpstream() {
	c.do(func() {
		c.upstream.End("retried")
		c.upstream = c.r.StartUpstream(nil, c.upstreamAttributes...)
	})
}

// EndUpstream ends the upstream's span at the time of its reply, with an error class if the reply does not reach
// the client.
func (c *Command) EndUpstream(class string, at time.Time) {
	c.do(func() {
		c.upstream.EndAt(class, at)
		c.upstream = nil
	})
}

// RecordError records an error, as Request.RecordError does.
func (c *Command) RecordError(class string, attributes ...attribute.KeyValue) {
	c.do(func() {
		c.r.RecordError(class)
		c.r.Set(attributes...)
	})
}

// End ends the request, with an error class if it failed.
func (c *Command) End(class string) {
	c.do(func() {
		c.ended = true
		if class != "" {
			c.r.RecordError(class)
		}
		c.upstream.End(class)
		c.r.End()
		c.conn.remove(c)
	})
}

func (c *Command) do(f func()) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		f()
	}
}
