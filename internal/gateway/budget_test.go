package gateway

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// acquireLater starts an Acquire and returns when it is in the queue.
func acquireLater(t *testing.T, b *Budget, ctx context.Context, n int64) <-chan error {
	t.Helper()
	before := b.Waiting()
	result := make(chan error, 1)
	go func() { result <- b.Acquire(ctx, n) }()
	testenv.Eventually(t, "a waiter", func() bool { return b.Waiting() == before+1 })
	return result
}

func mustAcquire(t *testing.T, b *Budget, n int64) {
	t.Helper()
	if !b.TryAcquire(n) {
		t.Fatalf("no %d bytes: %+v", n, b.Use())
	}
}

func TestBudgetBoundary(t *testing.T) {
	for _, c := range []struct {
		size, held, n int64
		want          bool
	}{
		{100, 0, 99, true},
		{100, 0, 100, true},
		{100, 0, 101, true}, // counts as 100
		{100, 1, 98, true},
		{100, 1, 99, true},
		{100, 1, 100, false},
		{100, 1, 101, false},
		{100, 100, 0, true},
		{100, 100, 1, false},
		{100, 100, -1, true}, // nothing
		{0, 0, 1 << 40, true},
	} {
		b := NewBudget(c.size)
		mustAcquire(t, b, c.held)
		if got := b.TryAcquire(c.n); got != c.want {
			t.Errorf("size %d, held %d: TryAcquire(%d) = %v", c.size, c.held, c.n, got)
		} else if got {
			b.Release(c.n)
		}
		if got := b.InUse(); got != min(c.held, c.size) {
			t.Errorf("size %d: %d in use, want %d", c.size, got, c.held)
		}
	}
}

func TestBudgetIsFirstComeFirstServed(t *testing.T) {
	b, ctx := NewBudget(10), t.Context()
	mustAcquire(t, b, 6)
	large := acquireLater(t, b, ctx, 8)
	small := acquireLater(t, b, ctx, 2)
	if b.TryAcquire(1) {
		t.Error("TryAcquire jumped the queue")
	}
	b.Release(6)
	for _, result := range []<-chan error{large, small} {
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	}
	use := b.Use()
	if use.InUse != 10 || use.Peak != 10 || use.Waits != 2 || use.Waiting != 0 || use.Waited <= 0 {
		t.Errorf("%+v", use)
	}
}

func TestBudgetLargerThanTheWhole(t *testing.T) {
	b, ctx := NewBudget(10), t.Context()
	mustAcquire(t, b, 1)
	huge := acquireLater(t, b, ctx, 1000)
	b.Release(1)
	if err := <-huge; err != nil {
		t.Fatal(err)
	}
	b.Release(1000)
	if b.InUse() != 0 {
		t.Errorf("%d in use", b.InUse())
	}
}

func TestBudgetGivingUpLetsOthersPass(t *testing.T) {
	b := NewBudget(10)
	mustAcquire(t, b, 5)
	ctx, cancel := context.WithCancel(t.Context())
	large := acquireLater(t, b, ctx, 10)
	small := acquireLater(t, b, t.Context(), 5)
	cancel()
	if err := <-large; !errors.Is(err, context.Canceled) {
		t.Errorf("large: %v", err)
	}
	if err := <-small; err != nil {
		t.Errorf("small: %v", err)
	}
	if use := b.Use(); use.InUse != 10 || use.GaveUp != 1 || use.Waiting != 0 {
		t.Errorf("%+v", use)
	}
}

func TestBudgetEndedContextStillGetsFreeBytes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := NewBudget(1)
	if err := b.Acquire(ctx, 1); err != nil {
		t.Errorf("free bytes: %v", err)
	}
	if err := b.Acquire(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("no free bytes: %v", err)
	}
}

func TestBudgetReleaseOfTooMuchPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	b := NewBudget(10)
	mustAcquire(t, b, 1)
	b.Release(2)
}

func TestBudgetNil(t *testing.T) {
	var b *Budget
	if err := b.Acquire(t.Context(), 1<<40); err != nil || !b.TryAcquire(1) {
		t.Error("a nil budget refused")
	}
	b.Release(1 << 40)
	if b.Use() != (BudgetUse{}) {
		t.Error("a nil budget counted")
	}
}

func TestBudgetUnderLoad(t *testing.T) {
	const size, workers, rounds = 1000, 16, 300
	b := NewBudget(size)
	var held atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for range rounds {
				useBudget(t, b, rng, &held)
			}
		})
	}
	wg.Wait()
	if use := b.Use(); use.InUse != 0 || use.Waiting != 0 || use.Peak > size {
		t.Errorf("%+v", use)
	}
}

// useBudget takes some of b, sometimes with a context that ends meanwhile.
func useBudget(t *testing.T, b *Budget, rng *rand.Rand, held *atomic.Int64) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rng.IntN(4) == 0 {
		go cancel()
	}
	n := rng.Int64N(2 * b.size)
	if b.Acquire(ctx, n) != nil {
		return
	}
	counted := min(n, b.size)
	if now := held.Add(counted); now > b.size {
		t.Errorf("%d bytes of %d held", now, b.size)
	}
	held.Add(-counted)
	b.Release(n)
}

func TestBudgetAllocatesNothingWithoutWaiting(t *testing.T) {
	b, ctx := NewBudget(100), t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if b.Acquire(ctx, 60) == nil {
			b.Release(60)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
