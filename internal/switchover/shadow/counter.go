package shadow

import (
	"maps"
	"sync"
)

// counter counts events by description.
type counter struct {
	mu sync.Mutex
	of map[string]int
}

// maxCounterKeys limits the descriptions; further ones count as "others".
const maxCounterKeys = 50

func (c *counter) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	if _, known := c.of[what]; !known && len(c.of) >= maxCounterKeys {
		what = "others"
	}
	c.of[what]++
}

func (c *counter) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.of)
}
