package memory

import (
	"context"
	"io"
	"net"
	"sync/atomic"
)

// Account counts the bytes that one connection, or one call on a connection, holds of a budget in one
// direction. Its methods may be called from any goroutine. A nil Account, and one that was not opened, has no
// limit and counts nothing.
type Account struct {
	client *Client
	leaves bool // Close calls client.Leave
	flow   Flow

	awaits atomic.Int32 // set of the Peers, as bits, that the connection waits for

	// Guarded by the budget's mu.
	shared   int64 // bytes taken from the shared part of the budget
	extra    int64 // bytes taken from the reserve, or beyond the budget
	promised int64 // bytes of the reserve that are set aside for it
	claim    int64 // bytes that it may take beyond its share
	credit   int64 // the part of claim that is not used yet
	closed   bool
	progress progressRecord
	prev     *Account // in the list of holders
	nextOne  *Account
}

// Account opens an account for a connection from the address client. The caller must close it.
func (s *Share) Account(client net.Addr, f Flow) *Account {
	if s == nil {
		return nil
	}
	return &Account{client: s.Client(client), flow: f, leaves: true}
}

// Open opens the account for one activity of a connection of client c, such as a call. The caller must close it
// before the client leaves.
func (a *Account) Open(c *Client, f Flow) { a.client, a.flow = c, f }

func (a *Account) budget() *Budget { return a.client.of.budget }

// unbounded reports whether a has no limit and counts nothing.
func (a *Account) unbounded() bool { return a == nil || a.client == nil }

// TakeSpare is TryAcquire for callers that can do without the bytes. If it returns false, that does not count as
// demand: the peers of other accounts are not checked for stalls because of it.
func (a *Account) TakeSpare(n int64) bool {
	if a.unbounded() || n <= 0 {
		return true
	}
	b := a.budget()
	b.mu.Lock()
	defer b.mu.Unlock()
	return a.take(n)
}

// TryAcquire takes n bytes if it need not wait for them, and reports whether it did.
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
	b.stalls.noteDemand(a)
	return false
}

// Acquire takes n bytes, and waits for them if it must. On an error, which is ctx.Err(), it has taken
// nothing. Free bytes are granted even when ctx has ended.
func (a *Account) Acquire(ctx context.Context, n int64) error { return a.Grow(ctx, n, n) }

// Grow takes n bytes, and waits for them if it must. claim says how many bytes the current message still
// needs, n included. An account asks for one message at a time.
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

// take takes n bytes if the account need not wait for them. b.mu must be held.
func (a *Account) take(n int64) bool {
	switch {
	case a.closed: // no longer counted, since nothing will be given back
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

// room returns how many more bytes the account may take of its share. b.mu must be held.
func (a *Account) room() int64 { return Room(connectionParts, a.client.room(), a.shared) }

// joinHolders adds the account to the list of holders if it holds nothing yet. b.mu must be held.
func (a *Account) joinHolders() {
	if a.shared+a.extra == 0 {
		a.progress = progressRecord{}
		a.budget().holders.add(a)
	}
}

func (a *Account) add(n int64) {
	b := a.budget()
	a.joinHolders()
	a.shared += n
	a.client.used += n
	a.client.of.used += n
	b.shared += n
	b.recordUse()
}

func (a *Account) addExtra(n int64) {
	b := a.budget()
	a.joinHolders()
	a.extra += n
	b.extra += n
	b.recordUse()
}

// beginTurn lets the account take claim bytes beyond its share, in addition to earlier claims. b.mu must be
// held.
func (a *Account) beginTurn(claim int64) {
	if a.claim == 0 {
		a.progress.turn = 0
	}
	a.claim += claim
	a.credit += claim
}

// Release gives back n bytes. It panics if that is more than the account holds, which is a bug of the caller.
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

// drop gives back n bytes, those beyond the share first. b.mu must be held.
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
		b.overcommit.end(a)
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

// Await marks the connection as waiting for a peer to send or to take bytes, until Awaited. While it waits
// and holds memory, the peer is checked for stalls. It may wait for both peers, in two goroutines.
func (a *Account) Await(p Peer) {
	if a != nil {
		a.awaits.Or(int32(p))
	}
}

// Awaited ends the wait that Await began.
func (a *Account) Awaited(p Peer) {
	if a != nil {
		a.awaits.And(^int32(p))
	}
}

// awaited returns the peer to check for stalls; 0 for none. If the connection waits for both, it is the
// client: a server that sends nothing more may be waiting for the client, too.
func (a *Account) awaited() Peer {
	waits := Peer(a.awaits.Load())
	if waits&FromClient != 0 {
		return FromClient
	}
	return waits
}

// Peer is one of the two ends that a session connects; 0 is none. It is a bit, so that an Account may wait
// for both.
type Peer int32

// The two peers.
const (
	FromClient Peer = 1 << iota
	FromUpstream
)

// String returns the name for messages and logs.
func (p Peer) String() string {
	switch p {
	case FromClient:
		return "client"
	case FromUpstream:
		return "upstream"
	}
	return ""
}

// PieceBytes limits one write of bytes that count in a budget, because the number of bytes moved is known only
// once a write has returned.
const PieceBytes = 64 << 10

// Send writes b, for which the account holds memory, to a peer.
func (a *Account) Send(c io.Writer, to Peer, b []byte) error {
	a.Await(to)
	defer a.Awaited(to)
	for len(b) > 0 {
		n, err := c.Write(b[:min(len(b), PieceBytes)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
