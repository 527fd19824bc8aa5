package redis

import (
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestLease(t *testing.T) {
	server := testenv.Redis(t)
	s, err := Open(t.Context(), OpenOptions{Client: goredis.Options{Addr: server.Addr}})
	must(t, err)
	defer s.Close()
	ctx := t.Context()
	a, b, other := s.Lease("x", "a"), s.Lease("x", "b"), s.Lease("y", "b")
	take := func(l store.Lease, hold time.Duration, want bool) {
		t.Helper()
		wait, err := l.Acquire(ctx, hold)
		must(t, err)
		if (wait == 0) != want || wait > time.Hour {
			t.Fatalf("to wait %v, want the turn: %v", wait, want)
		}
	}
	take(a, time.Hour, true)
	take(b, time.Hour, false)
	take(other, time.Hour, true)
	if kept, err := b.Renew(ctx, time.Hour); kept || err != nil {
		t.Errorf("b keeps a's turn: %v", err)
	}
	must(t, b.Release(ctx, 0)) // not b's turn
	take(b, time.Hour, false)
	must(t, a.Release(ctx, 0))
	take(b, time.Hour, true)
	must(t, b.Release(ctx, 50*time.Millisecond))
	take(b, time.Hour, false) // the pause applies to all
	testenv.Eventually(t, "the pause ends", func() bool {
		wait, err := a.Acquire(ctx, 30*time.Millisecond)
		return err == nil && wait == 0
	})
	testenv.Eventually(t, "a gateway that does not renew its turn loses it", func() bool {
		kept, err := a.Renew(ctx, time.Hour)
		if kept { // it was in time
			must(t, a.Release(ctx, time.Nanosecond))
		}
		wait, takeErr := b.Acquire(ctx, time.Hour)
		return err == nil && takeErr == nil && wait == 0
	})
	if kept, err := a.Renew(ctx, time.Hour); kept || err != nil {
		t.Errorf("a keeps b's turn: %v", err)
	}
}

// A copy of a store may have kept the lease's key without its expiry. Such a key does not block the lease for ever,
// and does not make packers ask all the time.
func TestLeaseWithoutExpiry(t *testing.T) {
	server := testenv.Redis(t)
	s, err := Open(t.Context(), OpenOptions{Client: goredis.Options{Addr: server.Addr}})
	must(t, err)
	defer s.Close()
	client := connect(t, goredis.Options{Addr: server.Addr})
	must(t, client.Set(t.Context(), leasePrefix+"x", "done", 0).Err())
	wait, err := s.Lease("x", "a").Acquire(t.Context(), time.Hour)
	if err != nil || wait < time.Minute {
		t.Errorf("to wait %v, %v", wait, err)
	}
	if left := client.PTTL(t.Context(), leasePrefix+"x").Val(); left <= 0 || left > time.Hour {
		t.Errorf("the key expires in %v", left)
	}
}
