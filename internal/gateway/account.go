package gateway

import (
	"context"
	"net"
	"sync/atomic"
)

// Account is what one connection, or a call on one, holds of a budget in one direction. Its methods
// may be called from any goroutine. A nil Account, and one that was not opened, has no bound and counts
// nothing.
type Account struct {
	client *Client
	leaves bool // the client, at the end
	flow   Flow

	awaits atomic.Int32 // for whom it waits: the peers, as bits

	// Guarded by the budget's mu.
	shared   int64 // from what all share
	extra    int64 // from the reserve, or beyond the budget
	promised int64 // of the reserve
	claim    int64 // for which it may go beyond the share
	credit   int64 // of claim, not used yet
	closed   bool
	trial    trial
	prev     *Account // holders
	nextOne  *Account
}

// Account opens an account for a connection of a client at an address. It has to be closed.
func (s *Share) Account(client net.Addr, f Flow) *Account {
	if s == nil {
		return nil
	}
	return &Account{client: s.Client(client), flow: f, leaves: true}
}

// Open makes a an account for something that a client's connection does. It has to be closed before
// the client leaves.
func (a *Account) Open(c *Client, f Flow) { a.client, a.flow = c, f }

func (a *Account) budget() *Budget { return a.client.of.budget }

// unbounded reports that nothing is counted.
func (a *Account) unbounded() bool { return a == nil || a.client == nil }

// TakeSpare is TryAcquire for what goes on without those bytes as well: nobody is hurried for them.
func (a *Account) TakeSpare(n int64) bool {
	if a.unbounded() || n <= 0 {
		return true
	}
	b := a.budget()
	b.mu.Lock()
	defer b.mu.Unlock()
	return a.take(n)
}

// TryAcquire takes n bytes if they are to be had at once.
func (a *Account) TryAcquire(n int64) bool {
	if a.unbounded() || n <= 0 {
		return true
	}
	b := a.budget()
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.take(n) {
		return true
	}
	b.judge.press(a)
	return false
}

// Acquire takes n bytes, and waits for them if it must. On an error, which is ctx's, it has
// taken nothing. Free bytes are given even when ctx has ended.
func (a *Account) Acquire(ctx context.Context, n int64) error { return a.Grow(ctx, n, n) }

// Grow takes n bytes now, of claim that the message at hand will need from now on, those
// included. A connection asks for one message at a time in this way.
func (a *Account) Grow(ctx context.Context, n, claim int64) error {
	if a.unbounded() || n <= 0 {
		return nil
	}
	b := a.budget()
	claim = max(claim, n)
	b.mu.Lock()
	if a.take(n) {
		b.mu.Unlock()
		return nil
	}
	w := b.enqueue(a, n, claim)
	b.serve()
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return b.giveUp(w, ctx.Err())
	}
}

// take takes n bytes that nobody has to wait for. b.mu is held.
func (a *Account) take(n int64) bool {
	switch {
	case a.closed: // the session is over, and nothing will be given back
	case n <= a.credit:
		a.credit -= n
		a.addExtra(n)
	case n <= a.room():
		a.add(n)
	default:
		return false
	}
	return true
}

// room is what the account may add. b.mu is held.
func (a *Account) room() int64 { return room(connectionParts, a.client.room(), a.shared) }

// holds comes before more is held. b.mu is held.
func (a *Account) holds() {
	if a.shared+a.extra == 0 {
		a.trial = trial{}
		a.budget().holders.add(a)
	}
}

func (a *Account) add(n int64) {
	b := a.budget()
	a.holds()
	a.shared += n
	a.client.used += n
	a.client.of.used += n
	b.shared += n
	b.used()
}

func (a *Account) addExtra(n int64) {
	b := a.budget()
	a.holds()
	a.extra += n
	b.extra += n
	b.used()
}

// beginTurn lets the account go beyond its share for a claim, or for more of it. b.mu is held.
func (a *Account) beginTurn(claim int64) {
	if a.claim == 0 {
		a.trial.turn = 0
	}
	a.claim += claim
	a.credit += claim
}

// Release gives back n bytes. It panics when more comes back than was taken, which is a bug of the
// caller.
func (a *Account) Release(n int64) {
	if a.unbounded() || n <= 0 {
		return
	}
	b := a.budget()
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.closed {
		return
	}
	if a.shared+a.extra < n {
		panic("gateway: account released more than acquired")
	}
	a.drop(n)
	b.serve()
}

// drop gives back n bytes, first what went beyond the share. b.mu is held.
func (a *Account) drop(n int64) {
	b := a.budget()
	extra := min(n, a.extra)
	a.extra -= extra
	b.extra -= extra
	n -= extra
	a.shared -= n
	a.client.used -= n
	a.client.of.used -= n
	b.shared -= n
	if a.extra == 0 {
		b.turns.end(a)
	}
	if a.shared+a.extra == 0 {
		b.holders.remove(a)
	}
}

// Close gives everything back.
func (a *Account) Close() {
	if a.unbounded() {
		return
	}
	b := a.budget()
	b.mu.Lock()
	if !a.closed {
		a.closed = true
		a.drop(a.shared + a.extra)
		if a.leaves {
			defer a.client.Leave()
		}
	}
	b.serve()
	b.mu.Unlock()
}

// Await says that the connection waits from now on for a peer, to send bytes or to take some, until
// Awaited. As long as it does, and holds something, the peer is judged. It may wait for both peers, in
// two goroutines.
func (a *Account) Await(p Peer) {
	if a != nil {
		a.awaits.Or(int32(p))
	}
}

// Awaited is the end of what Await began.
func (a *Account) Awaited(p Peer) {
	if a != nil {
		a.awaits.And(^int32(p))
	}
}

// awaited returns the peer that is judged; 0 for none. Of both it is the client: a server that has sent nothing
// more may wait for that, too.
func (a *Account) awaited() Peer {
	waits := Peer(a.awaits.Load())
	if waits&FromClient != 0 {
		return FromClient
	}
	return waits
}

// HeldPieceBytes limits one write of bytes that are held from a budget, as only a write that has ended tells what it
// moved.
const HeldPieceBytes = 64 << 10

// Send writes b, for which the account holds memory, to a peer.
func (a *Account) Send(c net.Conn, to Peer, b []byte) error {
	a.Await(to)
	defer a.Awaited(to)
	for len(b) > 0 {
		n, err := c.Write(b[:min(len(b), HeldPieceBytes)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
