package redis

import (
	"sync"
	"sync/atomic"
	"time"
)

// Some rows of the table are commands that not every server has. Where the server does not, the request
// is treated like any that nobody knows, so that the server words its refusal.

// serverCommands remembers which commands the server has.
type serverCommands struct {
	mu   sync.Mutex
	seen map[string]knownCommand

	noScriptShow atomic.Bool // SCRIPT SHOW is none of them
}

type knownCommand struct {
	known bool
	until time.Time
}

// commandsFor is how long an answer counts: the server may be replaced by another version.
const commandsFor = time.Minute

func (c *serverCommands) find(name string) (known, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.seen[name]
	return k.known, ok && time.Now().Before(k.until)
}

func (c *serverCommands) set(name string, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[string]knownCommand{}
	}
	c.seen[name] = knownCommand{known, time.Now().Add(commandsFor)}
}
