package postgres

import (
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// maxBlockers limits the connections that lock rows which an attempt should not get. eaterTime limits how long
// they hold them while the attempt waits for its answer.
const (
	maxBlockers = 16
	eaterTime   = time.Second
)

// eat runs the operation on another connection, in a transaction that is rolled back later. It gets the rows
// and locks that the attempt wrongly got, so the next try does not get them.
func (a *attempt) eat() bool {
	if len(a.eaters) >= maxBlockers || a.c.start == nil {
		return false
	}
	e := a.c.looker.spares.like(a.c)
	if err := a.feed(e); err != nil {
		_ = e.Close()
		return false
	}
	a.eating.Lock()
	defer a.eating.Unlock()
	a.eaters = append(a.eaters, e)
	return true
}

// feed runs the operation in a new transaction of e.
func (a *attempt) feed(e *conn) error {
	if e.net == nil {
		if err := e.connect(a.c.start, a.deadline); err != nil {
			return err
		}
	}
	if err := e.net.SetDeadline(a.deadline); err != nil {
		return err
	}
	if err := e.simple("BEGIN; SET LOCAL lock_timeout = '100ms'"); err != nil {
		return err
	}
	request := append(append([]byte(nil), a.g.parses...), a.op.Request...)
	d := &digest{}
	if err := e.exchange(&shadow.Operation{Request: request}, d, a.deadline, func(shadow.Answer) {}); err != nil {
		return err
	}
	if d.code != "" {
		return ownFailed{"what the client sent", d.code}
	}
	return nil
}

// release rolls back the transactions of the eaters.
func (a *attempt) release() {
	a.eating.Lock()
	defer a.eating.Unlock()
	for _, e := range a.eaters {
		if e.simple("ROLLBACK") != nil || e.simple("DISCARD ALL") != nil {
			_ = e.Close()
			continue
		}
		a.c.looker.spares.keep(e)
	}
	a.eaters = nil
}

// simple runs a simple query, which is allowed only on the tool's own connections.
func (c *conn) simple(text string) error {
	if _, err := c.net.Write(pg.AppendQuery(nil, text)); err != nil {
		return err
	}
	_, err := c.first(text)
	return err
}

// spares holds idle eaters. It has its own lock: an attempt must not wait for other queries to the target.
type spares struct {
	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// like returns a connection with the startup of c, which may not be connected yet.
func (s *spares) like(c *conn) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.idle {
		if string(e.start.Request) == string(c.start.Request) {
			s.idle = slices.Delete(s.idle, i, i+1)
			return e
		}
	}
	return &conn{target: c.target, looker: c.looker, start: c.start}
}

// keep stores an idle eater for reuse.
func (s *spares) keep(e *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) >= maxBlockers {
		_ = e.Close()
		return
	}
	s.idle = append(s.idle, e)
}

func (s *spares) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, e := range s.idle {
		_ = e.Close()
	}
	s.idle = nil
}
