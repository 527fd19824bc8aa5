package shadow

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// mirror turns what went by into operations, and sends them to both targets.
type mirror struct {
	tap      *Tap
	protocol Protocol
	targets  [targets]*Target
	compare  *compare
	rate     float64 // of the reads
	budget   *budget
	seed     maphash.Seed

	following bool // the run has not begun: connections are followed, and nothing is sent
	requests  chan func()
	replayed  bool      // pieces have the times of a recording
	latest    time.Time // of a piece

	woken  []waking
	order  *order
	states connStates
	number uint64
	untidy int64            // bytes that were submitted since the order was tidied
	open   map[*tapped]bool // connections that are followed
	most   int              // of these

	lost       atomic.Uint64 // connections whose bytes were not understood
	unmirrored atomic.Uint64 // connections that did what can't be mirrored
	reasons    counts        // why
	skipped    atomic.Uint64 // reads that the rate left out
	left       counts        // operations that are not sent, by reason
	submitted  atomic.Uint64
}

// run works until the tap is closed and empty, or ctx ends.
func (m *mirror) run(ctx context.Context) {
	var pieces []piece
	for ctx.Err() == nil {
		pieces = m.tap.take(pieces)
		for _, p := range pieces {
			m.keepTime(ctx, p.at)
			m.handle(ctx, p)
			m.tap.free(p)
		}
		m.obey()
		m.wakeAll(ctx, m.now().Add(-latestCause))
		if len(pieces) > 0 {
			continue
		}
		if m.tap.isClosed() {
			break
		}
		select {
		case <-m.tap.wake:
		case request := <-m.requests:
			request()
		case <-m.causeIsLate():
		case <-ctx.Done():
		}
	}
	m.wake(ctx, func(waking) bool { return true })
	m.keepTime(ctx, m.now())
	for _, t := range m.targets {
		t.settle()
	}
}

// obey carries out what was asked for while there was traffic.
func (m *mirror) obey() {
	select {
	case request := <-m.requests:
		request()
	default:
	}
}

// do has f run by the mirror's goroutine when both targets are done with all that they have.
func (m *mirror) do(ctx context.Context, f func()) {
	done := make(chan struct{})
	request := func() {
		for _, t := range m.targets {
			t.settle()
		}
		f()
		close(done)
	}
	select {
	case m.requests <- request:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// handle takes a piece of a connection that is still understood.
func (m *mirror) handle(ctx context.Context, p piece) {
	c := p.conn
	if p.bytes == nil {
		m.end(ctx, c)
		return
	}
	m.latest = p.at
	if c.given {
		return
	}
	if c.reader == nil {
		if len(m.open)+m.leaving() >= m.most {
			m.give(ctx, c, errTooMany)
			return
		}
		m.open[c] = true
		c.reader, c.early = m.protocol.Reader(), m.following
	}
	if c.early && !m.following {
		midway, ok := c.reader.(Midway)
		c.early = ok && midway.Midway()
	}
	var err error
	var done []*Operation
	if p.from == gateway.FromClient {
		err = c.reader.Request(p.bytes, p.at)
		if u, ok := c.reader.(Unanswered); ok {
			done = u.Unanswered()
		}
	} else {
		done, err = c.reader.Reply(p.bytes, p.at)
	}
	if c.early {
		err = errors.Join(err, m.follow(c, done))
	} else {
		m.arrive(ctx, c.number, p.at, done)
	}
	if err == nil && !m.keeps(c) {
		err = ErrTooLarge
	}
	if err != nil {
		m.give(ctx, c, err)
	}
}

// ownConn is the number of the connection for what no client has sent. Clients' begin with 1.
const ownConn = 0

// keepTime submits what time has brought.
func (m *mirror) keepTime(ctx context.Context, now time.Time) {
	keeper, ok := m.protocol.(Timekeeper)
	for ok && ctx.Err() == nil && !m.following {
		due := keeper.Due(now)
		if len(due) == 0 {
			return
		}
		m.submit(ctx, ownConn, due)
	}
}

var errPrepared = errors.New("it prepared what it needs together with a write, before the run began")

// follow keeps what a connection that is older than the run has said, so that it can be mirrored from there.
func (m *mirror) follow(c *tapped, done []*Operation) error {
	m.budget.move(reading, m.states.remember(c.number, done, (*Operation).isStateBefore))
	for _, op := range done {
		if op.Kind == Write && op.Keep {
			return errPrepared
		}
	}
	return nil
}

// keeps reports whether what a connection's Reader keeps fits into the bound of all.
func (m *mirror) keeps(c *tapped) bool {
	grown := c.reader.Held() - c.held
	c.held += grown
	return grown == 0 || m.budget.move(reading, grown) || grown < 0
}

// give gives a connection up: it goes on without us.
func (m *mirror) give(ctx context.Context, c *tapped, err error) {
	c.given = true
	c.lost.Store(true)
	if ender, ok := c.reader.(Ender); ok {
		ender.End()
	}
	m.drop(c)
	if errors.Is(err, ErrUnmirrored) {
		m.unmirrored.Add(1)
	} else {
		m.lost.Add(1)
	}
	m.reasons.add(err.Error())
	m.wakeOf(ctx, c.number)
	m.endLanes(c.number)
}

// end is called behind the last piece of a connection.
func (m *mirror) end(ctx context.Context, c *tapped) {
	m.wakeOf(ctx, c.number)
	if ender, ok := c.reader.(Ender); ok {
		if done := ender.End(); !c.early {
			m.submit(ctx, c.number, done)
		}
	}
	m.drop(c)
	m.endLanes(c.number)
}

// drop frees a connection's Reader.
func (m *mirror) drop(c *tapped) {
	delete(m.open, c)
	c.reader = nil
	m.budget.free(reading, c.held)
	c.held = 0
}

// forget frees what is known of connections whose clients are still there, when the mirror has ended.
func (m *mirror) forget() {
	for c := range m.open {
		if ender, ok := c.reader.(Ender); ok {
			ender.End()
		}
		m.drop(c)
	}
	for conn := range m.states {
		m.budget.free(reading, m.states.forget(conn))
	}
}

func (m *mirror) endLanes(conn uint64) {
	m.budget.free(reading, m.states.forget(conn))
	for _, t := range m.targets {
		t.end(conn)
	}
}

// submit sends what one piece completed, in bursts that fit.
func (m *mirror) submit(ctx context.Context, conn uint64, done []*Operation) {
	var ops []*Operation
	var size, answer int64 // answers come one by one, so the largest counts
	for _, op := range done {
		if !m.goes(conn, op) {
			continue
		}
		if len(ops) > 0 && size+op.size+max(answer, op.answerSize()) > m.budget.limit/burstShare {
			m.send(ctx, conn, ops, size, answer)
			ops, size, answer = nil, 0, 0
		}
		ops = append(ops, op)
		size += op.size
		answer = max(answer, op.answerSize())
	}
	if len(ops) > 0 {
		m.send(ctx, conn, ops, size, answer)
	}
}

// burstShare of the limit is what operations may have that are sent in one piece.
const burstShare = 8

// goes numbers an operation, and reports whether it is sent.
func (m *mirror) goes(conn uint64, op *Operation) bool {
	m.number++
	op.conn, op.number = conn, m.number
	if op.Left != "" {
		m.left.add(op.Left)
		return false
	}
	op.size = op.weight()
	if op.size+op.answerSize() > m.budget.most(underWay) {
		op.skipped = true
		m.left.add("larger than the memory bound allows")
		return false
	}
	if op.Instead != "" {
		m.left.add(op.Instead)
	}
	if op.skipped = !m.chosen(op); op.skipped {
		m.skipped.Add(1)
		return false
	}
	return true
}

// send hands operations to both targets.
func (m *mirror) send(ctx context.Context, conn uint64, ops []*Operation, size, answer int64) {
	b := burst{ops: ops}
	m.budget.wait(ctx, size+answer)
	ops[len(ops)-1].size += answer
	for _, op := range ops {
		op.left.Store(targets)
		b.before = m.order.enter(op, b.before)
	}
	m.submitted.Add(uint64(len(ops)))
	first := rand.IntN(targets) // neither is always woken first
	for i := range targets {
		m.targets[(first+i)%targets].push(ctx, conn, m.states[conn].said(), b)
	}
	m.budget.move(reading, m.states.remember(conn, ops, (*Operation).isState))
	if m.untidy += size; m.untidy > m.budget.limit/tidyShare {
		m.untidy = 0
		m.order.tidy()
	}
}

// tidyShare of the limit is what the order may keep of what is over.
const tidyShare = 16

// descriptorShare of the files that this process may open are connections to targets, no more: production's need two
// each, and must not want for any.
const descriptorShare = 4

// leaving is how many connections to a target are left of those that have ended.
func (m *mirror) leaving() int {
	return int(max(m.targets[control].leaving.Load(), m.targets[test].leaving.Load()))
}

var errTooMany = errors.New("too many connections for the files that this process may open")

// mostConnections that are mirrored.
func mostConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return int(min(limit.Cur/descriptorShare/targets, math.MaxInt32))
}

// chosen samples reads. The choice is made once, so both targets get the same ones.
func (m *mirror) chosen(op *Operation) bool {
	if op.Follows != nil {
		return !op.Follows.skipped
	}
	if op.Kind != Read || op.Keep || m.rate >= 1 {
		return true
	}
	return float64(maphash.Comparable(m.seed, op.number)>>11)/(1<<53) < m.rate
}

// finished is called by a lane when its target is done with an operation.
func (m *mirror) finished(op *Operation) {
	if op.left.Add(-1) > 0 {
		return
	}
	m.compare.add(op)
	if op.Kind != State { // which is said again on new connections
		op.Request = nil // the order may keep it for longer
	}
	m.budget.free(underWay, op.size)
}

// newMirror returns a mirror without a tap.
func newMirror(cfg *Config, b *budget, trouble func(*Target, error)) *mirror {
	m := &mirror{
		protocol: cfg.Protocol, compare: newCompare(cfg.Protocol), rate: cfg.Reads, budget: b, seed: maphash.MakeSeed(),
		order: newOrder(), states: connStates{}, open: map[*tapped]bool{}, most: mostConnections(), requests: make(chan func()),
	}
	m.targets[control] = newTarget("control", control, cfg.Control, cfg, trouble)
	m.targets[test] = newTarget("test", test, cfg.Test, cfg, trouble)
	for _, t := range m.targets {
		t.finished = m.finished
		t.hold = func(n int64) { m.budget.move(underWay, n) }
	}
	return m
}

func (m *mirror) resolve(ctx context.Context) {
	m.compare.resolve(ctx, m.targets[control], m.targets[test])
}
