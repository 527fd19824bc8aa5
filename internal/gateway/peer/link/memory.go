package link

import (
	"context"
	"math/bits"
	"net"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// Bytes in flight on a link are taken from a memory budget, except for these, in bytes, which each link has without
// asking. So short messages never touch the budget, and while it is used up all bytes still move, in short pieces.
const (
	freePiece = 16 << 10 // of a piece that is sent, or gathered for the local connection
	readBytes = 32 << 10 // read buffer of a busy link; an idle one has none
)

// heldMemory counts the bytes that one direction of a link has taken from a budget. One goroutine at a time uses it.
type heldMemory struct {
	account *memory.Account
	awaits  memory.Peer // the peer that must read or send something before the bytes are given back
	held    int64
}

// try takes n more bytes if they are free.
func (m *heldMemory) try(n int64) bool {
	if !m.account.TakeSpare(n) {
		return false
	}
	m.held += n
	return true
}

// take takes n more bytes, and waits for them if it must. claim is how many the current frame will need in all. Before
// it waits it calls idle, which gives back what it can.
func (m *heldMemory) take(ctx context.Context, n, claim int64, idle func() error) error {
	if !m.account.TryAcquire(n) {
		if err := idle(); err != nil {
			return err
		}
		if m.account.Grow(ctx, n, claim) != nil { // the connection has ended
			return net.ErrClosed
		}
	}
	m.held += n
	return nil
}

// keep gives back all but n bytes.
func (m *heldMemory) keep(n int64) {
	if n < m.held {
		m.account.Release(m.held - n)
		m.held = n
	}
}

// wait begins to wait for the peer, until waited. While memory is held, the peer is checked for stalls.
func (m *heldMemory) wait() { m.account.Await(m.awaits) }

func (m *heldMemory) waited() { m.account.Awaited(m.awaits) }

// bufferBytes returns the memory of a pooled buffer for n bytes: the next power of two.
func bufferBytes(n int) int64 { return 1 << bits.Len(uint(n-1)) }
