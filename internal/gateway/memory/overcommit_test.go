package memory

import "testing"

// The reserve takes as many small claims as it has room for, and each gateway has one large claim at a time.
func TestOvercommitPlaces(t *testing.T) {
	const size = 64 << 10
	b := NewBudget(size)
	overcommit := &b.overcommit
	of := func(gateway, ip string) *Account { return accountOf(t, b, gateway, ip) }
	small, half := of("g", "192.0.2.1"), of("g", "192.0.2.2")
	if !overcommit.begin(small, size/64) || small.credit != size/64 || overcommit.promised != size/64 {
		t.Fatalf("a short claim: credit %d, promised %d", small.credit, overcommit.promised)
	}
	if overcommit.begin(small, 1) && !overcommit.isOversize(small) {
		t.Error("a second claim on the reserve")
	}
	for n := int64(0); n < size/16; n += size / 64 { // an address gets at most half of the reserve
		if !overcommit.begin(of("g", "192.0.2.2"), size/64) {
			t.Errorf("the reserve is used up at %d of %d", overcommit.promised, overcommit.reserve)
		}
	}
	if overcommit.begin(half, size/64) {
		t.Error("an address has more than a half of the reserve")
	}
	overcommit.end(small)
	long, second, other := of("g", "192.0.2.3"), of("g", "192.0.2.4"), of("h", "192.0.2.3")
	if !overcommit.begin(long, size/64+1) || !overcommit.isOversize(long) {
		t.Error("a long claim finds no place")
	}
	if overcommit.begin(second, size/64+1) {
		t.Error("two of a gateway are oversize")
	}
	if !overcommit.hasPlace() || !overcommit.begin(other, size) || overcommit.hasPlace() {
		t.Error("another gateway finds no place, or leaves one")
	}
	if !overcommit.begin(long, size/8) || !overcommit.begin(long, 2*size) {
		t.Error("an oversize one that needs more waits for itself")
	}
	overcommit.end(long)
	if long.claim != 0 || long.credit != 0 || !overcommit.begin(second, size/2) {
		t.Error("a turn that has ended is no place for the next")
	}
}
