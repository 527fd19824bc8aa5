package postgres

import (
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// maxBlockers limits the connections that lock rows which an attempt should not get. blockerTime limits how long they
// hold the locks while the attempt waits for its answer.
const (
	maxBlockers = 16
	blockerTime = time.Second
)

// block runs the operation on another connection, in a transaction that is rolled back later. It gets the
// rows and locks that the attempt wrongly got, so the next try does not get them.
func (a *attempt) block() bool {
	if len(a.blockers) >= maxBlockers || a.c.start == nil {
		return false
	}
	e := a.c.probe.blockers.get(a.c)
	if err := a.runBlocker(e); err != nil {
		_ = e.Close()
		return false
	}
	a.blockersMu.Lock()
	defer a.blockersMu.Unlock()
	a.blockers = append(a.blockers, e)
	return true
}

// runBlocker runs the operation in a new transaction of e.
func (a *attempt) runBlocker(e *conn) error {
	if e.net == nil {
		if err := e.connect(a.c.start, a.deadline); err != nil {
			return err
		}
	}
	if err := e.net.SetDeadline(a.deadline); err != nil {
		return err
	}
	if err := e.simpleQuery("BEGIN; SET LOCAL lock_timeout = '100ms'"); err != nil {
		return err
	}
	request := append(append([]byte(nil), a.g.parses...), a.op.Request...)
	d := &digest{}
	if err := e.exchange(&shadow.Operation{Request: request}, d, a.deadline, func(shadow.Answer) {}); err != nil {
		return err
	}
	if d.code != "" {
		return toolError{"what the client sent", d.code}
	}
	return nil
}

// releaseBlockers rolls back the transactions of the blockers.
func (a *attempt) releaseBlockers() {
	a.blockersMu.Lock()
	defer a.blockersMu.Unlock()
	for _, e := range a.blockers {
		if e.simpleQuery("ROLLBACK") != nil || e.simpleQuery("DISCARD ALL") != nil {
			_ = e.Close()
			continue
		}
		a.c.probe.blockers.put(e)
	}
	a.blockers = nil
}

// simpleQuery runs a simple query, which is allowed only on the tool's own connections.
func (c *conn) simpleQuery(text string) error {
	if _, err := c.net.Write(pg.AppendQuery(nil, text)); err != nil {
		return err
	}
	_, err := c.readFirst(text)
	return err
}

// blockerPool holds idle blockers. It has its own lock: an attempt must not wait for other queries to the
// target.
type blockerPool struct {
	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// get returns an idle connection with the startup of c, or a new one that is not connected yet.
func (s *blockerPool) get(c *conn) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.idle {
		if string(e.start.Request) == string(c.start.Request) {
			s.idle = slices.Delete(s.idle, i, i+1)
			return e
		}
	}
	return &conn{target: c.target, probe: c.probe, start: c.start}
}

// put stores an idle blocker for reuse.
func (s *blockerPool) put(e *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) >= maxBlockers {
		_ = e.Close()
		return
	}
	s.idle = append(s.idle, e)
}

func (s *blockerPool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, e := range s.idle {
		_ = e.Close()
	}
	s.idle = nil
}
