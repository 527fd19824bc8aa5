package memory

import "slices"

// overcommit manages the memory beyond the shares of a budget: the reserve, and the places of oversize holders
// (see Budget). A few holders at a time get it, so that all waiters have their turn. The budget's mu guards
// it.
type overcommit struct {
	size     int64       // size of the budget
	reserve  int64       // an eighth of size
	promised int64       // the part of the reserve that is granted, used or not
	oversize [2]*Account // of different gateways
}

// isLarge reports whether a claim is too large for the reserve.
func (o *overcommit) isLarge(claim int64) bool { return claim > o.size/64 }

// hasPlace reports whether one more may be oversize.
func (o *overcommit) hasPlace() bool { return slices.Contains(o.oversize[:], nil) }

// begin lets a waiting account go beyond its share if the reserve has room for its claim, or if it can become
// oversize, as the only account of its gateway. It reports whether it did. An account that is oversize and needs more
// than its claim gets it at once: otherwise it would wait for its own place, and all others for it. The limit on the
// length of a message bounds the bytes that it takes.
func (o *overcommit) begin(a *Account, claim int64) bool {
	small := !o.isLarge(claim)
	switch {
	case o.isOversize(a):
	case a.promised == 0 && small && o.has(claim, a.client):
		o.promise(a, claim)
	case (!small || a.promised > 0) && o.takeOversizePlace(a):
	default:
		return false
	}
	a.beginTurn(claim)
	return true
}

// has reports whether the reserve has room for a claim of a client. An address may have half of the reserve,
// and a gateway three quarters if there are several.
func (o *overcommit) has(claim int64, c *Client) bool {
	return o.promised+claim <= o.reserve && c.promised+claim <= o.reserve/2 &&
		(c.of.alone() || c.of.promised+claim <= o.reserve/4*3)
}

func (o *overcommit) promise(a *Account, n int64) {
	a.promised += n
	a.client.promised += n
	a.client.of.promised += n
	o.promised += n
}

// end ends a's turn: a has given back all bytes beyond its share.
func (o *overcommit) end(a *Account) {
	o.promise(a, -a.promised)
	a.claim, a.credit = 0, 0
	for i := range o.oversize {
		if o.oversize[i] == a {
			o.oversize[i] = nil
		}
	}
}

func (o *overcommit) isOversize(a *Account) bool { return slices.Contains(o.oversize[:], a) }

// takeOversizePlace gives a one of the oversize places if one is free and its gateway has none. It reports
// whether it did.
func (o *overcommit) takeOversizePlace(a *Account) bool {
	free := -1
	for i, other := range o.oversize {
		switch {
		case other == nil:
			free = i
		case other.client.of == a.client.of:
			return false
		}
	}
	if free >= 0 {
		o.oversize[free] = a
	}
	return free >= 0
}
