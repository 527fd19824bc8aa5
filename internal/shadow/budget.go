package shadow

import (
	"context"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// account is what memory is held for.
type account int

// Accounts of a budget.
const (
	queued   account = iota // pieces in the tap
	reading                 // what Readers, or Filters, keep of what is not complete, and what connections need to be gone on with
	underWay                // operations that targets have not answered, with room for the answers
	accounts
)

// share of the limit, in eighths, that an account may hold. An operation that nothing is under way beside always fits, so the
// shares add up to the whole.
var share = [accounts]int64{queued: 3, reading: 2, underWay: 3}

// budget is the memory of a run: all parts draw from one.
type budget struct {
	limit int64

	mu      sync.Mutex
	held    [accounts]int64
	total   int64
	waiting chan struct{} // closed when something is freed; nil: nobody waits
}

func newBudget(limit int64) *budget { return &budget{limit: limit} }

// most is what an account may hold.
func (b *budget) most(a account) int64 { return b.limit / 8 * share[a] }

// take is false if n does not fit.
func (b *budget) take(a account, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total+n > b.limit || b.held[a]+n > b.most(a) {
		return false
	}
	b.add(a, n)
	return true
}

// move changes what is held, whether it fits or not: it is there. It is false if the account holds more than its share now.
func (b *budget) move(a account, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(a, n)
	return b.held[a] <= b.most(a)
}

// wait takes n under way as soon as it fits, or nothing else is under way, or ctx ends. Meanwhile the tap fills, and drops: production
// does not wait.
func (b *budget) wait(ctx context.Context, n int64) {
	for {
		b.mu.Lock()
		if b.held[underWay] == 0 || b.total+n <= b.limit || ctx.Err() != nil {
			b.add(underWay, n)
			b.mu.Unlock()
			return
		}
		freed := b.freed()
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
		}
	}
}

// takeLater is take as soon as there is room; false: over is closed first.
func (b *budget) takeLater(a account, n int64, over <-chan struct{}) bool {
	for !b.take(a, n) {
		b.mu.Lock()
		freed := b.freed()
		b.mu.Unlock()
		if b.take(a, n) { // it was freed in between
			return true
		}
		select {
		case <-freed:
		case <-over:
			return false
		}
	}
	return true
}

// free gives n back.
func (b *budget) free(a account, n int64) { b.move(a, -n) }

func (b *budget) add(a account, n int64) {
	b.held[a] += n
	b.total += n
	if n < 0 && b.waiting != nil {
		close(b.waiting)
		b.waiting = nil
	}
}

func (b *budget) freed() <-chan struct{} {
	if b.waiting == nil {
		b.waiting = make(chan struct{})
	}
	return b.waiting
}

// What the process may hold beside its budget: itself, histograms of latencies, and buffers and stacks of connections to
// and from clients and to targets.
const (
	fixedBytes      = 24 * MiB
	connectionBytes = 48 << 10
)

// process is what the process may hold with so many clients.
func (b *budget) process(clients *gateway.Stats) int64 {
	return b.limit + fixedBytes + connectionBytes*clients.Snapshot().Connections.Open
}

// holds is the sum of all accounts.
func (b *budget) holds() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// operationBytes is what an operation counts beside its request: itself, its places in the order and in
// two lanes.
const operationBytes = 512

// keyBytes is what a key counts beside its text.
const keyBytes = 256

func (op *Operation) weight() int64 {
	n := int64(operationBytes + cap(op.Request) + len(op.Name))
	for _, k := range op.Keys {
		n += int64(len(k)) + keyBytes
	}
	return n + int64(len(op.Uses))*keyBytes
}

// answerSize is what both targets' answers take while they are read: buffers that grow are larger than what they hold.
func (op *Operation) answerSize() int64 { return targets * 2 * op.Expected }

// Left is what is left of a buffer to which pieces are appended, when all before it was taken. That is less than a piece, and would keep the
// memory of what was taken, uncounted.
func Left(of, left []byte) []byte {
	switch len(left) {
	case 0:
		return nil
	case len(of):
		return of
	}
	return append([]byte(nil), left...)
}
