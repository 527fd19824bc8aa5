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

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// mirror turns the queued pieces into operations, and sends them to both targets.
type mirror struct {
	tap      *Tap
	protocol Protocol
	targets  [targets]*Target
	compare  *compare
	rate     float64 // share of the reads that are sent
	budget   *budget
	seed     maphash.Seed

	following bool // the run has not begun: connections are followed, but nothing is sent
	requests  chan func()
	replayed  bool      // pieces have the times of a recording
	latest    time.Time // of the last piece

	blocked []blockedOp
	order   *order
	states  connStates
	number  uint64
	untidy  int64                // bytes that were submitted since the order was tidied
	open    map[*clientConn]bool // connections that are followed
	maxOpen int                  // limit for open

	lost       atomic.Uint64 // connections whose bytes were not understood
	unmirrored atomic.Uint64 // connections that used something that can't be mirrored
	reasons    Counter       // why connections are not mirrored any more
	skipped    atomic.Uint64 // reads left out by sampling
	skips      Counter       // operations not sent, by reason
	submitted  atomic.Uint64
}

// run works until the tap is closed and empty, or ctx ends.
func (m *mirror) run(ctx context.Context) {
	var pieces []piece
	var request func()
	for ctx.Err() == nil {
		if request == nil {
			select {
			case request = <-m.requests:
			default:
			}
		}
		pieces = m.tap.take(pieces) // those that were queued before the request among them
		for _, p := range pieces {
			m.keepTime(ctx, p.at)
			m.handle(ctx, p)
			m.tap.free(p)
		}
		if request != nil {
			request()
			request = nil
		}
		m.unblockBefore(ctx, m.now().Add(-maxCauseDelay))
		if len(pieces) > 0 {
			continue
		}
		if m.tap.isClosed() {
			break
		}
		select {
		case <-m.tap.wake:
		case request = <-m.requests:
		case <-m.causeTimer():
		case <-ctx.Done():
		}
	}
	m.unblock(ctx, func(blockedOp) bool { return true })
	m.keepTime(ctx, m.now())
	for _, t := range m.targets {
		t.settle()
	}
}

// do has the mirror's goroutine run f when it has read all pieces that are queued now, and both targets are done with
// all their operations. It waits for that or for ctx to end.
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

// handle processes a piece. It ignores those of a connection that was given up.
func (m *mirror) handle(ctx context.Context, p piece) {
	c := p.conn
	if p.bytes == nil {
		m.end(ctx, c)
		return
	}
	m.latest = p.at
	if c.abandoned {
		return
	}
	if c.reader == nil {
		if len(m.open)+m.leaving() >= m.maxOpen {
			m.abandon(ctx, c, errTooMany)
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
	if p.from == memory.FromClient {
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
	if err == nil && !m.withinBudget(c) {
		err = ErrTooLarge
	}
	if err != nil {
		m.abandon(ctx, c, err)
	}
}

// ownConn is the number of the connection for operations that no client sent. Clients' numbers begin with 1.
const ownConn = 0

// keepTime submits the operations that the Protocol, if it is a Timekeeper, has due at now.
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

var errPrepared = errors.New("before the run, the client prepared a statement together with a write or BEGIN, which can't be repeated at the targets")

// follow keeps the state of a connection that is older than the run, so that it can be mirrored later.
func (m *mirror) follow(c *clientConn, done []*Operation) error {
	m.budget.move(reading, m.states.remember(c.number, done, (*Operation).isStateBefore))
	for _, op := range done {
		if op.Lasts == Unrepeatable {
			return errPrepared
		}
	}
	return nil
}

// withinBudget reports whether what the connection's Reader buffers fits into the budget.
func (m *mirror) withinBudget(c *clientConn) bool {
	grown := c.reader.Held() - c.held
	c.held += grown
	return grown == 0 || m.budget.move(reading, grown) || grown < 0
}

// abandon stops mirroring a connection, which itself continues.
func (m *mirror) abandon(ctx context.Context, c *clientConn, err error) {
	c.abandoned = true
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
	m.reasons.Add(err.Error())
	m.unblockConn(ctx, c.number)
	m.endTargetConns(c.number)
}

// end ends the mirroring of a connection after its last piece.
func (m *mirror) end(ctx context.Context, c *clientConn) {
	m.unblockConn(ctx, c.number)
	if ender, ok := c.reader.(Ender); ok {
		if done := ender.End(); !c.early {
			m.submit(ctx, c.number, done)
		}
	}
	m.drop(c)
	m.endTargetConns(c.number)
}

// drop frees a connection's Reader.
func (m *mirror) drop(c *clientConn) {
	delete(m.open, c)
	c.reader = nil
	m.budget.free(reading, c.held)
	c.held = 0
}

// forget frees the state of connections that are still open, when the mirror has ended.
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

func (m *mirror) endTargetConns(conn uint64) {
	m.budget.free(reading, m.states.forget(conn))
	for _, t := range m.targets {
		t.end(conn)
	}
}

// submit sends the operations that one piece completed, in bursts that fit into the budget.
func (m *mirror) submit(ctx context.Context, conn uint64, done []*Operation) {
	var ops []*Operation
	var size, answer int64 // answers come one by one, so the largest counts
	for _, op := range done {
		if !m.shouldSend(conn, op) {
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

// burstShare limits a burst: its operations may take 1/burstShare of the budget.
const burstShare = 8

// shouldSend numbers an operation, and reports whether it is sent.
func (m *mirror) shouldSend(conn uint64, op *Operation) bool {
	m.number++
	op.conn, op.number = conn, m.number
	if op.SkipReason != "" {
		m.skips.Add(op.SkipReason)
		return false
	}
	op.size = op.weight()
	if op.size+op.answerSize() > m.budget.accountLimit(underWay) {
		op.skipped = true
		m.skips.Add("too large for the memory bound")
		return false
	}
	if op.ReplacedReason != "" {
		m.skips.Add(op.ReplacedReason)
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
		op.pendingTargets.Store(targets)
		b.before = m.order.enter(op, b.before)
	}
	m.submitted.Add(uint64(len(ops)))
	first := rand.IntN(targets) // so that neither is always woken first
	for i := range targets {
		m.targets[(first+i)%targets].push(ctx, conn, m.states[conn].operations(), b)
	}
	m.budget.move(reading, m.states.remember(conn, ops, (*Operation).isState))
	if m.untidy += size; m.untidy > m.budget.limit/tidyShare {
		m.untidy = 0
		m.order.tidy()
	}
}

// tidyShare limits the finished operations in the order: they may take 1/tidyShare of the budget.
const tidyShare = 16

// descriptorShare limits the connections to targets: they may take 1/descriptorShare of this process's file
// descriptors. Production's connections need two each, and must never run out.
const descriptorShare = 4

// leaving returns how many of the ended connections still have a connection to a target.
func (m *mirror) leaving() int {
	return int(max(m.targets[control].leaving.Load(), m.targets[test].leaving.Load()))
}

var errTooMany = errors.New("too many connections for this process's limit of open files")

// maxConnections returns the number of connections that may be mirrored.
func maxConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return int(min(limit.Cur/descriptorShare/targets, math.MaxInt32))
}

// chosen reports whether an operation is mirrored, by sampling reads. The choice is made once for both
// targets.
func (m *mirror) chosen(op *Operation) bool {
	if op.Follows != nil {
		return !op.Follows.skipped
	}
	if op.Kind != Read || op.Keep || m.rate >= 1 {
		return true
	}
	return float64(maphash.Comparable(m.seed, op.number)>>11)/(1<<53) < m.rate
}

// finished records that one target is done with an operation. When both are, it compares their answers and frees
// memory.
func (m *mirror) finished(op *Operation) {
	if op.pendingTargets.Add(-1) > 0 {
		return
	}
	m.compare.add(op)
	if op.Kind != State { // State is sent again on new connections
		op.Request = nil // the order may keep op for longer
	}
	m.budget.free(underWay, op.size)
}

// newMirror returns a mirror without a tap.
func newMirror(cfg *Config, b *budget, trouble func(*Target, error)) *mirror {
	m := &mirror{
		protocol: cfg.Protocol, compare: newCompare(cfg.Protocol), rate: cfg.Reads, budget: b, seed: maphash.MakeSeed(),
		order: newOrder(), states: connStates{}, open: map[*clientConn]bool{}, maxOpen: maxConnections(), requests: make(chan func()),
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
