package redis

import (
	"context"
	"sync"
	"time"
)

// Some rows of the table are commands that not every server has. Where the server does not, the request
// is treated like any that nobody knows, so that the server words its refusal.

// serverCommands remembers which commands the server has.
type serverCommands struct {
	mu   sync.Mutex
	seen map[string]knownCommand
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

// serverKnows asks the server, once in a while, whether it has the command of a row. Where that can't
// be asked it has: the row is right about it if so.
func (s *session) serverKnows(c *command) bool {
	if known, ok := s.g.commands.find(c.name); ok {
		return known
	}
	if !s.settle() { // it may be logging in
		return true
	}
	ctx, cancel := context.WithTimeout(s.ctx, auxTimeout)
	defer cancel()
	list, err := s.beside().Do(ctx, "COMMAND", "INFO", c.name).Slice()
	if err != nil || len(list) != 1 {
		return true
	}
	s.g.commands.set(c.name, list[0] != nil)
	return list[0] != nil
}
