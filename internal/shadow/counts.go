package shadow

import (
	"maps"
	"sync"
)

// counts is how often each of a few things has happened.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

// mostCounts bounds how many things are told apart.
const mostCounts = 50

func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	if _, known := c.of[what]; !known && len(c.of) >= mostCounts {
		what = "others"
	}
	c.of[what]++
}

func (c *counts) all() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.of)
}
