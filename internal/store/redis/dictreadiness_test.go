package redis

import (
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// A check gives each dictionary a lease. invalidate ends all leases until a check that began after it has ended.
// Retired dictionaries are never ready.
func TestReadiness(t *testing.T) {
	r := newReadiness(time.Hour)
	expect := func(when string, ready, retired bool) {
		t.Helper()
		if r.Ready(1) != ready || r.ReadyOn(1, time.Now()) != ready || r.Retired(1) != retired {
			t.Errorf("%s: %v, on a new connection %v, retired %v", when, r.Ready(1), r.ReadyOn(1, time.Now()), r.Retired(1))
		}
	}
	check := func() {
		began, ended := r.beginCheck()
		r.startLease(began)
		r.setReady(true, 1)
		ended()
	}
	expect("at first", false, false)
	check()
	expect("after a check", true, false)
	_, ended := r.beginCheck()
	r.invalidate()
	ended()
	expect("after a check that began before a doubt", false, false)
	check()
	expect("after one that began later", true, false)
	r.startLease(r.now() - 2*time.Hour)
	r.setReady(true, 1)
	expect("after the lease", false, false)
	x := testDict(t, "x")
	found := newInventory()
	found.marked[x.Number()] = true
	r.recordRetired(found, []*codec.Dict{x})
	if !r.Retired(x.Number()) {
		t.Error("what is marked is not retired")
	}
	r.recordRetired(newInventory(), nil)
	if !r.Retired(x.Number()) {
		t.Error("an inventory of others has brought it back")
	}
	whole := newInventory()
	whole.complete = true
	r.recordRetired(whole, nil)
	if r.Retired(x.Number()) {
		t.Error("an inventory of everything has not")
	}
	if n := testing.AllocsPerRun(100, func() { r.Ready(1) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
