package main

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const embeddedTick = 100 * time.Millisecond

// embeddedStore is an in-memory store to play with, on a port of its own. It
// keeps nothing beyond the process.
type embeddedStore struct {
	server  *miniredis.Miniredis
	stopped chan struct{}
}

func startEmbedded() (*embeddedStore, error) {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("embedded store: %w", err)
	}
	s := &embeddedStore{server: server, stopped: make(chan struct{})}
	go s.passTime()
	return s, nil
}

// passTime lets keys expire: the store was made for tests and has no clock.
func (s *embeddedStore) passTime() {
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

func (s *embeddedStore) url() string { return "redis://" + s.server.Addr() }

func (s *embeddedStore) stop() {
	close(s.stopped)
	s.server.Close()
}
