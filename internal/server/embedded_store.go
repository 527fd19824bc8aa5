package server

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const embeddedTick = 100 * time.Millisecond

// Embedded is an in-memory store for trying Cinch out. It listens on a port of its own, and its data is lost when
// the process ends.
type Embedded struct {
	server  *miniredis.Miniredis
	stopped chan struct{}
}

// StartEmbedded starts an embedded store.
func StartEmbedded() (*Embedded, error) {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	s := &Embedded{server: server, stopped: make(chan struct{})}
	go s.runClock()
	return s, nil
}

// runClock lets keys expire: the store is made for tests and has no clock.
func (s *Embedded) runClock() {
	tick := time.NewTicker(embeddedTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-s.stopped:
			return
		case now := <-tick.C:
			s.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

// URL returns the store's address.
func (s *Embedded) URL() string { return "redis://" + s.server.Addr() }

// Stop ends the store.
func (s *Embedded) Stop() {
	close(s.stopped)
	s.server.Close()
}
