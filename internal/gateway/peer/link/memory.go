package link

import (
	"context"
	"math/bits"
	"net"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// What is under way on a link takes memory of a budget, but for what each connection may have without asking: so small
// messages cost no look at the budget, and where it is used up everything goes on in small pieces.
const (
	freePiece = 16 << 10 // that is sent, or gathered for our side
	readBytes = 32 << 10 // that a busy link holds to read into; an idle one holds none
)

// heldMemory counts the bytes that one direction of a link has taken from a budget. One goroutine at a time uses it.
type heldMemory struct {
	account *memory.Account
	awaits  memory.Peer // the one that has to take or send something before it is given back
	held    int64
}

// try takes n bytes more if they are to be had at once.
func (m *heldMemory) try(n int64) bool {
	if !m.account.TakeSpare(n) {
		return false
	}
	m.held += n
	return true
}

// take takes n bytes more, of claim that the frame at hand will need from now on. If that has to wait it calls idle before,
// which gives back what it can.
func (m *heldMemory) take(ctx context.Context, n, claim int64, idle func() error) error {
	if !m.account.TryAcquire(n) {
		if err := idle(); err != nil {
			return err
		}
		if m.account.Grow(ctx, n, claim) != nil { // the connection is over
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

// wait marks that the peer is waited for, until waited. As long as something is held for it, it may be judged.
func (m *heldMemory) wait() { m.account.Await(m.awaits) }

func (m *heldMemory) waited() { m.account.Awaited(m.awaits) }

// bufferBytes returns the memory that a buffer for n bytes takes.
func bufferBytes(n int) int64 { return 1 << bits.Len(uint(n-1)) }
