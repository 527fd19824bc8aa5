package history

// What may be named is forgotten by a clock: a hand goes round, and takes the first that has not been used since it came by
// last.

// clock gives out numbers from 1 on, again those that are free, the last one first.
type clock struct {
	free []uint32
	hand uint32
}

// kept is of what a clock forgets. What is pinned is being coded, and is not forgotten meanwhile.
type kept struct{ used, live, pinned bool }

func (k *kept) state() *kept { return k }

// isFull tells whether something has to be forgotten before there may be another one.
func (c *clock) isFull(all, most int) bool { return len(c.free) == 0 && all >= most }

// take returns a free number, that of a new one at the end if there is none.
func take[T any](c *clock, all *[]T) uint32 {
	if k := len(c.free); k > 0 {
		id := c.free[k-1]
		c.free = c.free[:k-1]
		return id
	}
	*all = append(*all, *new(T))
	return uint32(len(*all) - 1)
}

// forget frees the number of the first that has not been used and is not pinned, and returns it.
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
