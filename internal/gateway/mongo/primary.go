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

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// balancer finds the primary of a replica set for clients that connect with loadBalanced=true. They treat the
// gateway as a load balancer: they keep a pool for each service ID that it reports, and pin cursors and
// transactions to connections.
type balancer struct {
	members  []endpoint.Upstream
	ctx      context.Context // ends with the gateway
	stats    *gateway.Stats
	log      *slog.Logger
	ask      func(context.Context, endpoint.Upstream) (helloReply, error) // askIdentity
	heard    func(member int, d helloReply)                               // gets each reply to ask
	sessions memberSessions

	askMu sync.Mutex // held while the members are asked, so that concurrent sessions ask only once

	mu         sync.Mutex
	primary    int       // index of the member that was primary when the members were last asked
	askedAt    time.Time // when that was; zero: it is no longer primary
	failedAt   time.Time // when last no primary was found
	electionID string    // the election that made it primary
}

var (
	errNoPrimary  = errors.New("no member of the replica set is primary")
	errNotPrimary = errors.New("the member is no longer primary")

	errPrimaryUnknown = fmt.Errorf("%w: %w", endpoint.ErrUnreachable, errNoPrimary)
)

const (
	primaryTTL     = 250 * time.Millisecond // members are not asked again within this time
	primaryPause   = 100 * time.Millisecond // between attempts while there is none
	primaryTimeout = 2 * time.Second        // timeout for the replies: a dead host sends none
	primaryWait    = 8 * time.Second        // for an election to end; drivers wait 10 s for a connection
)

// dial finds the primary and connects to it. It returns the connection and the member's index.
func (b *balancer) dial(connect func(ctx context.Context, member int) (net.Conn, error)) (c net.Conn, member int, err error) {
	ctx, cancel := context.WithTimeout(b.ctx, primaryWait)
	defer cancel()
	for {
		if member, err = b.findPrimary(); err == nil {
			if c, err = connect(ctx, member); err == nil {
				return c, member, nil
			}
			b.forgetPrimary(member)
		}
		select {
		case <-ctx.Done():
			return nil, 0, err
		case <-time.After(primaryPause):
		}
	}
}

// findPrimary returns the index of the primary. It asks all members at the same time, unless that was done
// within primaryTTL.
func (b *balancer) findPrimary() (int, error) {
	b.askMu.Lock()
	defer b.askMu.Unlock()
	b.mu.Lock()
	primary, asked, failed, elected := b.primary, b.askedAt, b.failedAt, b.electionID
	b.mu.Unlock()
	if time.Since(asked) < primaryTTL {
		return primary, nil
	}
	if time.Since(failed) < primaryPause { // another session asked while this one waited
		return 0, errPrimaryUnknown
	}
	claim, ok := b.askAll(elected)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !ok {
		b.failedAt = time.Now()
		return 0, errPrimaryUnknown
	}
	b.primary, b.askedAt, b.electionID = claim.member, time.Now(), claim.electionID
	b.sessions.retireOthers(claim.member)
	return claim.member, nil
}

// claim is a member's reply that it is primary, elected by electionID.
type claim struct {
	member     int // -1: it is not primary
	electionID string
}

// askAll asks all members whether they are primary. A primary of an election before latest may not know of
// its successor yet: it counts only if no other member claims to be primary.
func (b *balancer) askAll(latest string) (older claim, ok bool) {
	answers := make(chan claim, len(b.members))
	for i, up := range b.members {
		go func() {
			c := claim{member: -1}
			defer func() { answers <- c }()
			defer gateway.CatchPanic(b.log, b.stats, nil)
			d, err := b.ask(b.ctx, up)
			if err != nil {
				return
			}
			if b.heard(i, d); d.isPrimary {
				c = claim{i, d.electionID}
			}
		}()
	}
	timeout := time.After(primaryTimeout)
	for range b.members {
		select {
		case c := <-answers:
			if c.member >= 0 && c.electionID >= latest {
				return c, true
			}
			if c.member >= 0 {
				older, ok = c, true
			}
		case <-timeout:
			return older, ok
		}
	}
	return older, ok
}

// forgetPrimary forgets that member is primary, unless another primary has been found since.
func (b *balancer) forgetPrimary(member int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.primary == member {
		b.askedAt = time.Time{}
	}
}

// serviceID returns the ID by which clients of a load balancer tell the servers behind it apart. It is the
// same from every gateway.
func (b *balancer) serviceID(member int) (id [12]byte) {
	sum := sha256.Sum256([]byte(b.members[member].Address))
	copy(id[:], sum[:])
	return id
}

// checkHello returns an error, which ends the session, if the server is no longer primary: the client then
// connects again.
func (b *balancer) checkHello(f *memberSession, d helloReply) error {
	if d.ok && !d.isPrimary {
		b.retireMember(f)
		return errNotPrimary
	}
	return nil
}

// checkReply reports in notPrimary whether the document of a reply shows that the server is no longer primary, and
// in deliver whether the client gets the reply all the same. It does not if its driver tries again, as
// drivers do with retried reads and with some writes.
func (b *balancer) checkReply(f *memberSession, retried bool, reply []byte) (notPrimary, deliver bool) {
	v := parseReplyError(reply)
	if !v.notPrimary {
		return false, true
	}
	b.retireMember(f)
	return true, !v.retryable && !retried
}

// retireMember records that a session has seen that its member is no longer primary, and ends the other sessions to
// that member.
func (b *balancer) retireMember(f *memberSession) {
	b.forgetPrimary(f.member)
	b.sessions.retire(f.member, f)
}
