package shadow

import (
	"context"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// account names a use of the budget's memory.
type account int

// Accounts of a budget.
const (
	queued   account = iota // pieces in the tap
	reading                 // incomplete messages in Readers or Filters, and state of connections
	underWay                // operations that targets have not answered, with room for the answers
	accounts
)

// share limits each account, in eighths of the budget. The shares add up to the whole, so an operation always
// fits when no other is under way.
var share = [accounts]int64{queued: 3, reading: 2, underWay: 3}

// budget is the memory of a run, shared by all its parts.
type budget struct {
	limit int64

	mu      sync.Mutex
	held    [accounts]int64
	total   int64
	waiting chan struct{} // closed when something is freed; nil: no goroutine waits
}

func newBudget(limit int64) *budget { return &budget{limit: limit} }

// accountLimit returns the limit of an account.
func (b *budget) accountLimit(a account) int64 { return b.limit / 8 * share[a] }

// take reserves n bytes of an account if they fit, and reports whether they did.
func (b *budget) take(a account, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total+n > b.limit || b.held[a]+n > b.accountLimit(a) {
		return false
	}
	b.add(a, n)
	return true
}

// move changes an account by n whether it fits or not, since the memory is already allocated. It reports
// whether the account is within its share.
func (b *budget) move(a account, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(a, n)
	return b.held[a] <= b.accountLimit(a)
}

// wait reserves n bytes for operations under way as soon as they fit, no other operation is under way, or ctx ends.
// Until then the tap fills and drops pieces: production does not wait.
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

// takeWait reserves n bytes as soon as there is room. It returns false if over is closed first.
func (b *budget) takeWait(a account, n int64, over <-chan struct{}) bool {
	for !b.take(a, n) {
		b.mu.Lock()
		freed := b.freed()
		b.mu.Unlock()
		if b.take(a, n) { // freed in between
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

// Memory of the process outside its budget: a fixed part, which includes the histograms of latencies, and per client
// the buffers and stacks of its connections, including those to targets.
const (
	fixedBytes      = 24 * MiB
	connectionBytes = 48 << 10
)

// process returns the bytes that the process may use with the current number of clients.
func (b *budget) process(clients *gateway.Stats) int64 {
	return b.limit + fixedBytes + connectionBytes*clients.Snapshot().Connections.Open
}

// holds returns the sum of all accounts.
func (b *budget) holds() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// operationBytes is the size of an operation without its request: the struct, and its entries in the order and in two
// target connections.
const operationBytes = 512

// keyBytes is the size of a key without its text.
const keyBytes = 256

func (op *Operation) weight() int64 {
	n := int64(operationBytes + cap(op.Request) + len(op.Name))
	for _, k := range op.Keys {
		n += int64(len(k)) + keyBytes
	}
	return n + int64(len(op.Uses))*keyBytes
}

// answerSize returns the bytes that both targets' answers may take while they are read: growing buffers are up to twice
// as large as their content.
func (op *Operation) answerSize() int64 { return targets * 2 * op.Expected }

// Remainder returns the unread rest of a buffer to which pieces are appended. If a part was read, it returns
// a copy: a slice of the buffer would keep the memory of that part, which is not counted.
func Remainder(of, left []byte) []byte {
	switch len(left) {
	case 0:
		return nil
	case len(of):
		return of
	}
	return append([]byte(nil), left...)
}
