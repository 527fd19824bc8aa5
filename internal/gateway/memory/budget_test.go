package memory

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// fakeFlow is a Flow whose progress the test sets. It records the reason when it is cut.
type fakeFlow struct {
	progress int64
	verdict  *StallReason
}

func (s *fakeFlow) Progress() int64         { return s.progress }
func (s *fakeFlow) Patience() time.Duration { return 4 * time.Second }
func (s *fakeFlow) Cut(v StallReason)       { s.verdict = &v }

func addrOf(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 1} }

// accountOf opens an account at a gateway for the client at ip.
func accountOf(t *testing.T, b *Budget, gateway, ip string) *Account {
	t.Helper()
	a := b.Share(gateway).Account(addrOf(ip), &fakeFlow{})
	t.Cleanup(a.Close)
	return a
}

// mostOf takes as many bytes as a can get without waiting, and returns their number.
func mostOf(a *Account) (n int64) {
	for step := int64(1 << 40); step > 0; step /= 2 {
		for a.TryAcquire(step) {
			n += step
		}
	}
	return n
}

func acquireLater(t *testing.T, a *Account, ctx context.Context, n, claim int64) <-chan error {
	t.Helper()
	b := a.budget()
	before := b.Use().Waits
	result := make(chan error, 1)
	go func() { result <- a.Grow(ctx, n, claim) }()
	testenv.Eventually(t, "a waiter", func() bool { return b.Use().Waits > before })
	return result
}

func TestBudgetWithoutAccount(t *testing.T) {
	b := NewBudget(100)
	for _, c := range []struct {
		n    int64
		want bool
	}{{99, true}, {2, false}, {1, true}, {1, false}, {0, true}, {-1, true}} {
		if got := b.TryAcquire(c.n); got != c.want {
			t.Errorf("TryAcquire(%d) = %v with %+v", c.n, got, b.Use())
		}
	}
	b.Release(100)
	if use := b.Use(); use.InUse != 0 || use.Peak != 100 {
		t.Errorf("%+v", use)
	}
}

func TestBudgetReleaseOfTooMuchPanics(t *testing.T) {
	for name, release := range map[string]func(b *Budget, a *Account){
		"budget":  func(b *Budget, a *Account) { b.Release(12) },
		"account": func(b *Budget, a *Account) { a.Release(2) },
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBudget(100)
			a := b.Share("g").Account(addrOf("192.0.2.1"), &fakeFlow{})
			if !b.TryAcquire(10) || !a.TryAcquire(1) {
				t.Fatal("no room")
			}
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			release(b, a)
		})
	}
}

// remove takes an account off the list wherever it is, and does nothing for one that is not on it.
func TestHolders(t *testing.T) {
	var h holders
	accounts := make([]Account, 4)
	for i := range 3 {
		h.add(&accounts[i])
	}
	for _, remove := range []int{3, 1, 1, 2, 0} {
		h.remove(&accounts[remove])
	}
	if h.first != nil {
		t.Error("an account is left")
	}
	h.add(&accounts[1])
	if h.first != &accounts[1] || accounts[1].nextOne != nil || accounts[1].prev != nil {
		t.Error("not alone")
	}
}

func TestNoBudget(t *testing.T) {
	for _, b := range []*Budget{nil, NewBudget(0)} {
		a := b.Share("g").Account(nil, nil)
		if !b.TryAcquire(1<<40) || !a.TryAcquire(1<<40) || a.Acquire(t.Context(), 1<<40) != nil {
			t.Error("no budget, and yet refused")
		}
		a.Release(1 << 40)
		a.Close()
		b.Release(1 << 40)
		if use := b.Use(); use.InUse != 0 || use.Peak != 0 {
			t.Errorf("no budget, and yet counted: %+v", use)
		}
	}
}

// However many connections there are and however much they hold and want, the next one gets 200 KiB. One of another
// address gets 4 MiB, and one at another gateway 8 MiB.
func TestSomethingIsLeftForOthers(t *testing.T) {
	const size = 128 << 20
	for _, n := range []int{1, 2, 4, 20, 300} {
		b := NewBudget(size)
		b.Share("other")
		for range n {
			a := accountOf(t, b, "greedy", "192.0.2.1")
			mostOf(a)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _ = a.Grow(ctx, 1<<20, 90<<20) }()
		}
		testenv.Eventually(t, "all but one wait", func() bool { return b.Waiting() >= n-1 })
		for _, c := range []struct {
			gateway, address string
			n                int64
		}{{"greedy", "192.0.2.1", 200 << 10}, {"greedy", "192.0.2.2", 4 << 20}, {"other", "192.0.2.1", 8 << 20}} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if err := accountOf(t, b, c.gateway, c.address).Acquire(ctx, c.n); err != nil {
				t.Errorf("%d greedy connections, %+v: %v, %+v", n, c, err, b.Use())
			}
		}
	}
}

// An account that waits for more gets it from the reserve or as an oversize holder, although all others keep
// theirs.
func TestWaitingHoldersGetMore(t *testing.T) {
	const size = 1 << 20
	b := NewBudget(size)
	b.Share("other")
	for range 50 {
		mostOf(accountOf(t, b, "g", "192.0.2.1"))
	}
	if !b.TryAcquire(size - b.InUse() - b.overcommit.reserve) {
		t.Fatal("something is not free")
	}
	small, large, second := accountOf(t, b, "g", "192.0.2.2"), accountOf(t, b, "g", "192.0.2.2"), accountOf(t, b, "g", "192.0.2.2")
	if err := small.Grow(t.Context(), 1, size/64); err != nil {
		t.Fatal(err)
	}
	if err := large.Grow(t.Context(), 1, 2*size); err != nil {
		t.Fatal(err)
	}
	result := acquireLater(t, second, t.Context(), 1, size)
	if err := small.Grow(t.Context(), size/64-1, size/64-1); err != nil {
		t.Fatal(err)
	}
	if err := large.Grow(t.Context(), 2*size-1, 2*size-1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-result:
		t.Error("two are oversize")
	default:
	}
	large.Release(2 * size)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// A short message gets memory from the reserve, however many longer messages of the same address and of others wait.
func TestShortMessagesPassLongOnes(t *testing.T) {
	const size = 1 << 20
	b := NewBudget(size)
	if !b.TryAcquire(size - b.overcommit.reserve) {
		t.Fatal("something is not free")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := accountOf(t, b, "g", "192.0.2.1").Grow(ctx, 1, 2*size); err != nil { // becomes oversize
		t.Fatal(err)
	}
	const n = 3 * servedAtOnce
	for i := range n {
		a := accountOf(t, b, "g", "192.0.2."+strconv.Itoa(1+i%2))
		go func() { _ = a.Grow(ctx, 1, size/64+1) }()
	}
	testenv.Eventually(t, "all wait", func() bool { return b.Waiting() == n })
	ago(b, time.Minute)
	for _, ip := range []string{"192.0.2.1", "192.0.2.3"} {
		soon, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := accountOf(t, b, "g", ip).Acquire(soon, 100); err != nil {
			t.Errorf("%s: %v, %+v", ip, err, b.Use())
		}
	}
}

// ago makes all waiters appear to have waited longer, by d.
func ago(b *Budget, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.shares {
		for _, w := range s.waiters {
			w.since, w.due = w.since.Add(-d), w.due.Add(-d)
		}
	}
}

// The oversize places are granted to one gateway after the other.
func TestGatewaysTakeTurns(t *testing.T) {
	const size = 1 << 20
	b := NewBudget(size)
	b.Share("busy")
	if !b.TryAcquire(size - b.overcommit.reserve) {
		t.Fatal("something is not free")
	}
	holder, stays := accountOf(t, b, "busy", "192.0.2.1"), accountOf(t, b, "third", "192.0.2.1")
	for _, a := range []*Account{stays, holder} {
		if err := a.Grow(t.Context(), size, size); err != nil {
			t.Fatal(err)
		}
	}
	const waiting = 5
	served := make(chan *Account, waiting+1)
	wait := func(gateway string) {
		a := accountOf(t, b, gateway, "192.0.2.1")
		result := acquireLater(t, a, t.Context(), size, size)
		go func() {
			if <-result == nil {
				served <- a
			}
		}()
	}
	for range waiting {
		wait("busy")
	}
	wait("other")
	for turn := 1; ; turn++ {
		holder.Release(size)
		if holder = <-served; holder.client.of.gateway == "other" {
			if turn > 2 {
				t.Errorf("the other gateway had turn %d", turn)
			}
			break
		}
	}
}

func TestGivingUp(t *testing.T) {
	b := NewBudget(100)
	first, second := accountOf(t, b, "g", "192.0.2.1"), accountOf(t, b, "g", "192.0.2.1")
	if err := first.Acquire(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := acquireLater(t, second, ctx, 1000, 1000)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if use := b.Use(); use.GaveUp != 1 || use.Waiting != 0 || use.InUse != 1000 {
		t.Errorf("%+v", use)
	}
	if err := second.Acquire(ctx, 1); err != nil {
		t.Errorf("free bytes, and a context that has ended: %v", err)
	}
}

func TestAccountClosesWithAllItHas(t *testing.T) {
	b := NewBudget(1 << 20)
	a := b.Share("g").Account(addrOf("192.0.2.1"), &fakeFlow{})
	if !a.TryAcquire(1000) || a.Grow(t.Context(), 1<<20, 1<<20) != nil {
		t.Fatal("no room")
	}
	a.Close()
	a.Close()
	a.Release(1000)
	if use := b.Use(); use.InUse != 0 || b.overcommit.oversize != [2]*Account{} || len(b.Share("g").clients) != 0 {
		t.Errorf("%+v", use)
	}
}

func TestAddressOf(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::/64", "2001:db8::2": "2001:db8::/64",
	} {
		if got := AddressOf(addrOf(in)); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
	if got := AddressOf(&net.UnixAddr{Name: "@", Net: "unix"}); got != "unix" {
		t.Error(got)
	}
}

// In a model of holders that grow in a random order, whenever one holder waits, another does not. At most two messages
// beyond the budget are in use, and all messages finish.
func TestGrowingHoldersNeverDeadlock(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		m := newModel(t, rng)
		for len(m.busy) > 0 {
			m.step()
		}
		if use := m.b.Use(); use.InUse != 0 || m.b.overcommit.promised != 0 || m.b.overcommit.oversize != [2]*Account{} || use.Waiting != 0 {
			t.Fatalf("seed %d: at the end %+v, promised %d", seed, use, m.b.overcommit.promised)
		}
	}
}

// model drives accounts without goroutines: it does not step the holders that wait.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	b       *Budget
	largest int64
	busy    []*holder
}

type holder struct {
	a          *Account
	have, want int64
	asked      int64
	w          *waiter
}

func newModel(t *testing.T, rng *rand.Rand) *model {
	m := &model{t: t, rng: rng, b: NewBudget(1000 + rng.Int64N(5000))}
	m.b.stalls.looking = true // no goroutine checks for stalls
	for i := range 2 + rng.IntN(30) {
		h := &holder{a: m.b.Share(string(rune('a'+rng.IntN(3)))).Account(addrOf("192.0.2."+string(rune('1'+i%4))), &fakeFlow{})}
		h.want = 1 + rng.Int64N(100)
		if rng.IntN(3) == 0 {
			h.want = 1 + rng.Int64N(2*m.b.size)
		}
		m.largest = max(m.largest, h.want)
		m.busy = append(m.busy, h)
	}
	return m
}

// step moves one holder that does not wait.
func (m *model) step() {
	var free []int
	for i, h := range m.busy {
		if h.served() {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		m.t.Fatalf("all %d wait: %+v", len(m.busy), m.b.Use())
	}
	if use := m.b.Use(); use.InUse > use.Size+2*m.largest {
		m.t.Fatalf("%d bytes in use, the largest message has %d: %+v", use.InUse, m.largest, use)
	}
	i := free[m.rng.IntN(len(free))]
	if h := m.busy[i]; h.have == h.want || m.rng.IntN(50) == 0 { // some end early
		h.a.Close()
		m.busy = append(m.busy[:i], m.busy[i+1:]...)
	} else {
		h.ask(1 + m.rng.Int64N(h.want-h.have))
	}
}

func (h *holder) ask(n int64) {
	b := h.a.budget()
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.asked = n; h.a.take(n) {
		h.have += n
		return
	}
	h.w = b.enqueue(h.a, n, h.want-h.have)
	b.serve()
}

// served reports whether the holder does not wait.
func (h *holder) served() bool {
	if h.w == nil {
		return true
	}
	select {
	case <-h.w.ready:
		h.have, h.w = h.have+h.asked, nil
		return true
	default:
		return false
	}
}

// Accounts may be used in parallel, while some of them give up waiting.
func TestBudgetUnderLoad(t *testing.T) {
	const size, workers, rounds = 1000, 16, 200
	b := NewBudget(size)
	var all sync.WaitGroup
	for i := range workers {
		a := accountOf(t, b, "g", "192.0.2."+string(rune('1'+i%3)))
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for range rounds {
				useBudget(a, rng, rng.Int64N(2*size))
			}
		})
	}
	all.Wait()
	if use := b.Use(); use.InUse != 0 || use.Waiting != 0 || use.Peak > 3*size {
		t.Errorf("%+v", use)
	}
}

func useBudget(a *Account, rng *rand.Rand, claim int64) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rng.IntN(4) == 0 {
		go cancel()
	}
	have := int64(0)
	for have < claim {
		n := min(1+rng.Int64N(claim), claim-have)
		if a.Grow(ctx, n, claim-have) != nil {
			break
		}
		have += n
	}
	a.Release(have)
}

func TestAccountAllocatesNothingWithoutWaiting(t *testing.T) {
	b, ctx := NewBudget(1000), t.Context()
	a := accountOf(t, b, "g", "192.0.2.1")
	if n := testing.AllocsPerRun(100, func() {
		if a.Acquire(ctx, 60) == nil {
			a.Release(60)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// An account that became oversize with too small a claim gets more, and the waiters behind it are served
// afterwards.
func TestOversizeThatNeedsMore(t *testing.T) {
	const size = 1 << 20
	b := NewBudget(size)
	others := accountOf(t, b, "g", "192.0.2.1")
	others.Release(mostOf(others) / 2)
	mostOf(accountOf(t, b, "g", "192.0.2.2"))
	a, next := accountOf(t, b, "g", "192.0.2.3"), accountOf(t, b, "g", "192.0.2.4")
	mostOf(a)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := a.Grow(ctx, size/8, size/8); err != nil {
		t.Fatal(err)
	}
	waits := acquireLater(t, next, ctx, size/2, size/2)
	if err := a.Grow(ctx, 2*size, 2*size); err != nil {
		t.Fatalf("it waits for itself: %v, %+v", err, b.Use())
	}
	a.Close()
	if err := <-waits; err != nil {
		t.Error(err)
	}
}
