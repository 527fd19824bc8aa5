package shadow

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync"
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
	limit    int64   // bytes of operations under way
	seed     maphash.Seed

	requests chan func()
	replayed bool      // pieces have the times of a recording
	latest   time.Time // of a piece

	woken  []waking
	order  *order
	kept   int64 // bytes, by Readers
	number uint64
	untidy int64 // bytes that were submitted since the order was tidied
	open   int   // connections that are followed
	most   int   // of these

	mu    sync.Mutex
	held  int64
	freed chan struct{} // holds one token after something was freed

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
		if m.open >= m.most {
			m.give(ctx, c, errTooMany)
			return
		}
		m.open++
		c.reader = m.protocol.Reader()
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
	m.arrive(ctx, c.number, p.at, done)
	if err == nil && !m.keeps(c) {
		err = ErrTooLarge
	}
	if err != nil {
		m.give(ctx, c, err)
	}
}

// keeps reports whether what a connection's Reader keeps fits into the bound of all.
func (m *mirror) keeps(c *tapped) bool {
	now := c.reader.Held()
	m.kept += now - c.held
	c.held = now
	return m.kept <= m.limit
}

// give gives a connection up: it goes on without us.
func (m *mirror) give(ctx context.Context, c *tapped, err error) {
	c.given = true
	c.lost.Store(true)
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
	if ender, ok := c.reader.(Ender); ok && !c.given {
		m.submit(ctx, c.number, ender.End())
	}
	m.drop(c)
	m.endLanes(c.number)
}

// drop frees a connection's Reader.
func (m *mirror) drop(c *tapped) {
	if c.reader != nil {
		m.open--
	}
	c.reader = nil
	m.kept -= c.held
	c.held = 0
}

func (m *mirror) endLanes(conn uint64) {
	for _, t := range m.targets {
		t.end(conn)
	}
}

// submit sends what one piece completed.
func (m *mirror) submit(ctx context.Context, conn uint64, done []*Operation) {
	var b burst
	var size int64
	for _, op := range done {
		m.number++
		op.conn, op.number = conn, m.number
		if op.Left != "" {
			m.left.add(op.Left)
			continue
		}
		if op.Instead != "" {
			m.left.add(op.Instead)
		}
		if op.skipped = !m.chosen(op); op.skipped {
			m.skipped.Add(1)
			continue
		}
		op.left.Store(targets)
		op.size = op.weight()
		size += op.size
		b.ops = append(b.ops, op)
	}
	if len(b.ops) == 0 {
		return
	}
	m.hold(ctx, size)
	for _, op := range b.ops {
		b.before = m.order.enter(op, b.before)
	}
	m.submitted.Add(uint64(len(b.ops)))
	first := rand.IntN(targets) // neither is always woken first
	for i := range targets {
		m.targets[(first+i)%targets].push(ctx, conn, b)
	}
	if m.untidy += size; m.untidy > m.limit/tidyShare {
		m.untidy = 0
		m.order.tidy()
	}
}

// tidyShare of the limit is what the order may keep of what is over.
const tidyShare = 16

// descriptorShare of the files that this process may open are connections to targets, no more: production's need two
// each, and must not want for any.
const descriptorShare = 4

var errTooMany = errors.New("too many connections for the files that this process may open")

// mostConnections that are mirrored.
func mostConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return int(min(limit.Cur/descriptorShare/targets, math.MaxInt32))
}

// operationBytes is what an operation counts beside its request: itself, its places in the order and in
// two lanes.
const operationBytes = 512

// keyBytes is what a key counts beside its text.
const keyBytes = 256

func (op *Operation) weight() int64 {
	n := int64(operationBytes+len(op.Request)+len(op.Name)) + targets*op.Expected
	for _, k := range op.Keys {
		n += int64(len(k)) + keyBytes
	}
	return n + int64(len(op.Uses))*keyBytes
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

// hold waits until an operation fits. Meanwhile the tap fills, and drops: production does not wait.
func (m *mirror) hold(ctx context.Context, n int64) {
	for {
		m.mu.Lock()
		if m.held == 0 || m.held+n <= m.limit {
			m.held += n
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		select {
		case <-m.freed:
		case <-ctx.Done():
			m.mu.Lock()
			m.held += n
			m.mu.Unlock()
			return
		}
	}
}

func (m *mirror) holds() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}

// finished is called by a lane when its target is done with an operation.
func (m *mirror) finished(op *Operation) {
	if op.left.Add(-1) > 0 {
		return
	}
	m.compare.add(op)
	m.mu.Lock()
	m.held -= op.size
	m.mu.Unlock()
	select {
	case m.freed <- struct{}{}:
	default:
	}
}

// newMirror returns a mirror without a tap.
func newMirror(cfg *Config, trouble func(*Target, error)) *mirror {
	m := &mirror{
		protocol: cfg.Protocol, compare: newCompare(cfg.Protocol), rate: cfg.Reads, limit: cfg.Memory / 2, seed: maphash.MakeSeed(),
		order: newOrder(), most: mostConnections(), requests: make(chan func()), freed: make(chan struct{}, 1),
	}
	m.targets[control] = newTarget("control", control, cfg.Control, cfg, trouble)
	m.targets[test] = newTarget("test", test, cfg.Test, cfg, trouble)
	for _, t := range m.targets {
		t.finished = m.finished
	}
	return m
}

func (m *mirror) resolve(ctx context.Context) {
	m.compare.resolve(ctx, m.targets[control], m.targets[test])
}
