package gateway

import "slices"

// turns are what lies beyond the shares of a budget and goes to a few holders at a time, so that each
// that waits has its turn: the reserve, and the places of those that are oversize (see Budget). The
// budget's mu guards them.
type turns struct {
	size     int64       // of the budget
	reserve  int64       // an eighth of that
	promised int64       // of the reserve: to whom it was given, used or not
	oversize [2]*Account // of different gateways
}

// isLarge reports whether a claim would use the reserve up.
func (t *turns) isLarge(claim int64) bool { return claim > t.size/64 }

// hasPlace reports whether one more may be oversize.
func (t *turns) hasPlace() bool { return slices.Contains(t.oversize[:], nil) }

// begin lets an account that waits go beyond its share, if the reserve has room for its claim, or it is
// the only one of its gateway that is oversize. One that is, and needs more than it had said, may have
// more: it would wait for nobody but itself, and all others for it. What bounds it is the length of a message.
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

// has reports whether the reserve has room for a claim of a client's. An address may have a
// half of it, and a gateway three quarters where there are several.
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

// end takes note that a has given back what went beyond its share.
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

// becomesOversize gives a one of the places for that, if there is one.
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
