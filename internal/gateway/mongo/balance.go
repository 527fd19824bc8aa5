package mongo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// balancer finds the primary of a replica set for clients that connect with
// loadBalanced=true: they take the gateway for a load balancer, keep a pool for each service
// id that it shows, and pin cursors and transactions to connections.
type balancer struct {
	members   []gateway.Upstream
	ctx       context.Context // ends with the gateway
	log       *slog.Logger
	ask       func(context.Context, gateway.Upstream) (described, error) // askWho
	followers followers

	mu      sync.Mutex
	primary int       // index of the member that was primary when we asked last
	asked   time.Time // when that was; zero: it is no more
	failed  time.Time // when none was found last
	elected string    // the election that made it primary
}

var (
	errNoPrimary  = errors.New("no member of the replica set is primary")
	errNotPrimary = errors.New("the member is primary no more")

	errPrimaryUnknown = fmt.Errorf("%w: %w", gateway.ErrUnreachable, errNoPrimary)
)

const (
	primaryFresh = 250 * time.Millisecond // how long members are not asked again who is primary
	primaryPause = 100 * time.Millisecond // between questions while there is none
	primaryAsk   = 2 * time.Second        // for the answers: of a host that has died there is none
	primaryWait  = 8 * time.Second        // elections take a while; drivers wait 10 s for a connection
)

// dial connects to the primary. A session belongs to the member that it was opened to.
func (b *balancer) dial() (c net.Conn, member int, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, primaryWait)
	defer cancel()
	for {
		if member, err = b.findPrimary(); err == nil {
			if c, err = b.members[member].Dial(ctx); err == nil {
				return c, member, nil
			}
			b.lost(member)
		}
		select {
		case <-ctx.Done():
			return nil, 0, err
		case <-time.After(primaryPause):
		}
	}
}

// findPrimary asks all members at a time, unless that was done a moment ago.
func (b *balancer) findPrimary() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.asked) < primaryFresh {
		return b.primary, nil
	}
	if time.Since(b.failed) < primaryPause { // another session asked while this one waited to
		return 0, errPrimaryUnknown
	}
	claim, ok := b.askAll(b.elected)
	if !ok {
		b.failed = time.Now()
		return 0, errPrimaryUnknown
	}
	b.primary, b.asked, b.elected = claim.member, time.Now(), claim.election
	b.followers.only(claim.member)
	return claim.member, nil
}

// claim is a member that says it is primary, and by which election.
type claim struct {
	member   int // -1: it does not say so
	election string
}

// askAll asks all members who is primary. One that was elected before the last that we know of
// may not have heard of that yet: it counts when no other member says so.
func (b *balancer) askAll(latest string) (older claim, ok bool) {
	answers := make(chan claim, len(b.members))
	for i, up := range b.members {
		go func() {
			c := claim{member: -1}
			defer func() { answers <- c }()
			defer gateway.CatchPanic(b.log, up.Stats, nil)
			if d, err := b.ask(b.ctx, up); err == nil && d.primary {
				c = claim{i, d.election}
			}
		}()
	}
	enough := time.After(primaryAsk)
	for range b.members {
		select {
		case c := <-answers:
			if c.member >= 0 && c.election >= latest {
				return c, true
			}
			if c.member >= 0 {
				older, ok = c, true
			}
		case <-enough:
			return older, ok
		}
	}
	return older, ok
}

// lost forgets a primary, unless another has been found since.
func (b *balancer) lost(member int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.primary == member {
		b.asked = time.Time{}
	}
}

// serviceID is what the clients of a load balancer see of the server behind it: the same
// bytes from every gateway.
func (b *balancer) serviceID(member int) (id [12]byte) {
	sum := sha256.Sum256([]byte(b.members[member].Address))
	copy(id[:], sum[:])
	return id
}

// checkHello ends a session whose server is primary no more: its client connects again.
func (b *balancer) checkHello(f *follower, d described) error {
	if d.ok && !d.primary {
		b.left(f)
		return errNotPrimary
	}
	return nil
}

// checkReply reports whether the document of a reply shows that the server is primary no more.
// deliver says whether the client gets it all the same: not when its driver tries again, as it
// does with reads that are retried and with some writes.
func (b *balancer) checkReply(f *follower, retried bool, reply []byte) (lost, deliver bool) {
	v := judge(reply)
	if !v.lost {
		return false, true
	}
	b.left(f)
	return true, !v.retryable && !retried
}

// left records that a session has seen that its member is primary no more, and ends the
// others that lead there.
func (b *balancer) left(f *follower) {
	b.lost(f.member)
	b.followers.leave(f.member, f)
}
