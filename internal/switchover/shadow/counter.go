package shadow

import (
	"maps"
	"sync"
)

// Counter counts events by description.
type Counter struct {
	mu sync.Mutex
	of map[string]int
}

// maxCounterKeys limits the descriptions; further ones count as "others".
const maxCounterKeys = 50

// Add counts an event.
func (c *Counter) Add(what string) {
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

// All returns the numbers of events by description.
func (c *Counter) All() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.of)
}
