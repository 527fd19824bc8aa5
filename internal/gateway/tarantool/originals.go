package tarantool

import (
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// originals keeps what a client sent for requests that may have to be sent again.
type originals struct {
	budget *gateway.Account

	mu   sync.Mutex
	kept int // bytes that are not taken from the budget
}

// maxKept bytes of originals are free for each connection.
const maxKept = 64 << 10

// keep stores what a client sent with the exchange, if there is memory for it and for as many
// more copies of it as it takes to handle it.
func (o *originals) keep(e *exchange, f *frame, more int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(f.bytes)
	cost := n * (1 + more)
	switch {
	case o.kept+cost <= maxKept:
		o.kept += cost
		e.free = int32(cost)
	case o.budget.TryAcquire(int64(cost)):
		e.held = int64(cost)
	default:
		return false
	}
	e.original = append(gateway.GetBuffer(n), f.bytes...)
	e.prefix = int32(f.prefix)
	return true
}

// drop gives back what the exchange keeps.
func (o *originals) drop(e *exchange) {
	if e.original == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.budget.Release(e.held)
	o.kept -= int(e.free)
	gateway.PutBuffer(e.original)
	e.original, e.held, e.free = nil, 0, 0
}
