package gateway

import "testing"

// The reserve takes as many small claims as it has room for, and each gateway has one large claim at a time.
func TestTurns(t *testing.T) {
	const size = 64 << 10
	b := NewBudget(size)
	turns := &b.turns
	of := func(gateway, ip string) *Account { return accountOf(t, b, gateway, ip) }
	small, half := of("g", "192.0.2.1"), of("g", "192.0.2.2")
	if !turns.begin(small, size/64) || small.credit != size/64 || turns.promised != size/64 {
		t.Fatalf("a short claim: credit %d, promised %d", small.credit, turns.promised)
	}
	if turns.begin(small, 1) && !turns.isOversize(small) {
		t.Error("a second claim on the reserve")
	}
	for n := int64(0); n < size/16; n += size / 64 { // an address gets at most half of the reserve
		if !turns.begin(of("g", "192.0.2.2"), size/64) {
			t.Errorf("the reserve is used up at %d of %d", turns.promised, turns.reserve)
		}
	}
	if turns.begin(half, size/64) {
		t.Error("an address has more than a half of the reserve")
	}
	turns.end(small)
	long, second, other := of("g", "192.0.2.3"), of("g", "192.0.2.4"), of("h", "192.0.2.3")
	if !turns.begin(long, size/64+1) || !turns.isOversize(long) {
		t.Error("a long claim finds no place")
	}
	if turns.begin(second, size/64+1) {
		t.Error("two of a gateway are oversize")
	}
	if !turns.hasPlace() || !turns.begin(other, size) || turns.hasPlace() {
		t.Error("another gateway finds no place, or leaves one")
	}
	if !turns.begin(long, size/8) || !turns.begin(long, 2*size) {
		t.Error("an oversize one that needs more waits for itself")
	}
	turns.end(long)
	if long.claim != 0 || long.credit != 0 || !turns.begin(second, size/2) {
		t.Error("a turn that has ended is no place for the next")
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
