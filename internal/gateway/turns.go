package gateway

import "slices"

// turns manages the memory beyond the shares of a budget: the reserve, and the places of oversize holders
// (see Budget). A few holders at a time get it, so that all waiters have their turn. The budget's mu guards
// it.
type turns struct {
	size     int64       // size of the budget
	reserve  int64       // an eighth of size
	promised int64       // the part of the reserve that is granted, used or not
	oversize [2]*Account // of different gateways
}

// isLarge reports whether a claim is too large for the reserve.
func (t *turns) isLarge(claim int64) bool { return claim > t.size/64 }

// hasPlace reports whether one more may be oversize.
func (t *turns) hasPlace() bool { return slices.Contains(t.oversize[:], nil) }

// begin lets a waiting account go beyond its share if the reserve has room for its claim, or if it can become
// oversize, as the only account of its gateway. An account that is oversize and needs more than its claim
// gets it: it would wait only for itself, and all others for it. The limit on the length of a message bounds
// it.
func (t *turns) begin(a *Account, claim int64) bool {
	small := !t.isLarge(claim)
	switch {
	case t.isOversize(a):
	case a.promised == 0 && small && t.has(claim, a.client):
		t.promise(a, claim)
	case (!small || a.promised > 0) && t.becomesOversize(a):
	default:
		return false
	}
	a.beginTurn(claim)
	return true
}

// has reports whether the reserve has room for a claim of a client. An address may have half of the reserve,
// and a gateway three quarters if there are several.
func (t *turns) has(claim int64, c *Client) bool {
	return t.promised+claim <= t.reserve && c.promised+claim <= t.reserve/2 &&
		(c.of.alone() || c.of.promised+claim <= t.reserve/4*3)
}

func (t *turns) promise(a *Account, n int64) {
	a.promised += n
	a.client.promised += n
	a.client.of.promised += n
	t.promised += n
}

// end ends a's turn: a has given back all bytes beyond its share.
func (t *turns) end(a *Account) {
	t.promise(a, -a.promised)
	a.claim, a.credit = 0, 0
	for i := range t.oversize {
		if t.oversize[i] == a {
			t.oversize[i] = nil
		}
	}
}

func (t *turns) isOversize(a *Account) bool { return slices.Contains(t.oversize[:], a) }

// becomesOversize gives a one of the oversize places if one is free and its gateway has none. It reports
// whether it did.
func (t *turns) becomesOversize(a *Account) bool {
	free := -1
	for i, other := range t.oversize {
		switch {
		case other == nil:
			free = i
		case other.client.of == a.client.of:
			return false
		}
	}
	if free >= 0 {
		t.oversize[free] = a
	}
	return free >= 0
}
