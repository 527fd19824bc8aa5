package history

// Nameable values, lists and records are forgotten by the clock algorithm: a hand goes round, and evicts the
// first one that has not been used since the last round.

// clock assigns numbers from 1 on. It reuses free numbers, the last one freed first.
type clock struct {
	free []uint32
	hand uint32
}

// kept is the eviction state of an entry. A pinned entry is being coded, and is not evicted.
type kept struct{ used, live, pinned bool }

func (k *kept) state() *kept { return k }

// isFull reports whether an entry has to be evicted before another one can be added.
func (c *clock) isFull(all, most int) bool { return len(c.free) == 0 && all >= most }

// take returns a free number, or that of a new entry at the end.
func take[T any](c *clock, all *[]T) uint32 {
	if k := len(c.free); k > 0 {
		id := c.free[k-1]
		c.free = c.free[:k-1]
		return id
	}
	*all = append(*all, *new(T))
	return uint32(len(*all) - 1)
}

// forget frees the number of the first entry that has not been used and is not pinned, and returns it.
func forget[T any, P interface {
	*T
	state() *kept
}](c *clock, all []T,
) uint32 {
	for {
		if c.hand++; c.hand >= uint32(len(all)) {
			c.hand = 1
		}
		if k := P(&all[c.hand]).state(); k.live && !k.used && !k.pinned {
			k.live = false
			c.free = append(c.free, c.hand)
			return c.hand
		} else {
			k.used = false
		}
	}
}
