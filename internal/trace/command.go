package trace

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
)

// Command is a traced request of a protocol that carries no context, and whose reply another goroutine may carry. Its methods
// may be called by both at a time, and on a nil one, which is a request that is not traced. What comes after End is left out.
type Command struct {
	mu       sync.Mutex
	r        *Request
	upstream *Upstream
	about    []attribute.KeyValue // the upstream's
	ended    bool
	of       *Connection
}

// Connection has the commands of one connection that have not ended: what waits in a queue when the connection ends needs not be
// looked for. The zero value has none.
type Connection struct {
	mu   sync.Mutex
	open map[*Command]struct{}
}

// End ends those that are left.
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

// ConnectionEnded is the class of requests whose connection ended before their reply had come.
const ConnectionEnded = "connection_ended"

// Command begins the trace of a request that has come now on a connection, zero: at this moment; nil if it is not traced. Waited is for how long it
// could not come because there was no memory for it.
func (t *Tracer) Command(of *Connection, name string, now time.Time, waited time.Duration) *Command {
	if t == nil || !t.drawn() {
		return nil
	}
	if now.IsZero() {
		now = time.Now()
	}
	if !t.bound.allows(now) {
		return nil
	}
	r := t.begin(context.Background(), now.Add(-waited), name, nil)
	if waited > 0 {
		r.Part("wait", r.Start, now)
	}
	c := &Command{r: r, of: of}
	of.add(c)
	return c
}

// Is names the request as soon as it is known what it is.
func (c *Command) Is(name string, attributes ...attribute.KeyValue) {
	c.do(func() {
		c.r.span.SetName(name)
		c.r.Set(attributes...)
	})
}

// Set adds attributes.
func (c *Command) Set(attributes ...attribute.KeyValue) { c.do(func() { c.r.Set(attributes...) }) }

// Now is the time; zero where nobody asks.
func (c *Command) Now() (now time.Time) {
	if c != nil {
		now = time.Now()
	}
	return now
}

// Part adds a span of something that took so long from a time on, if it took any.
func (c *Command) Part(name string, from time.Time, took time.Duration, attributes ...attribute.KeyValue) {
	if c != nil && took > 0 {
		c.do(func() { c.r.Part(name, from, from.Add(took), attributes...) })
	}
}

// Waited adds a span of a wait since then.
func (c *Command) Waited(since time.Time) {
	if c != nil {
		c.Part("wait", since, time.Since(since))
	}
}

// Goes says what the span of the upstream has to say.
func (c *Command) Goes(attributes ...attribute.KeyValue) { c.do(func() { c.about = attributes }) }

// Asks begins the span of the upstream, and ends the one before: that was asked in vain.
func (c *Command) Asks() {
	c.do(func() {
		c.upstream.End("asked_again")
		c.upstream = c.r.Upstream(nil, c.about...)
	})
}

// Answered ends it at the time when the reply was there, with a class where that is none for the client.
func (c *Command) Answered(class string, at time.Time) {
	c.do(func() {
		c.upstream.EndAt(class, at)
		c.upstream = nil
	})
}

// Fails notes what went wrong, as Request.Fail does.
func (c *Command) Fails(class string, attributes ...attribute.KeyValue) {
	c.do(func() {
		c.r.Fail(class)
		c.r.Set(attributes...)
	})
}

// End ends the request, with an error's class where it failed.
func (c *Command) End(class string) {
	c.do(func() {
		c.ended = true
		if class != "" {
			c.r.Fail(class)
		}
		c.upstream.End(class)
		c.r.End()
		c.of.remove(c)
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
