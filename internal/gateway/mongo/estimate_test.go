package mongo

import (
	"testing"
	"time"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Sizes and ratios of replies are recorded by shape, and forgotten when they may have changed.
func TestForecasts(t *testing.T) {
	var s forecasts
	if e := s.predict(1, largeReply); e.replySaving(wire.Zstd) <= 0 {
		t.Error("an unknown find is not worth it")
	}
	if e := s.predict(1, 0); e.replySaving(wire.Zstd) >= 0 {
		t.Error("an unknown command is worth it")
	}
	for range 20 {
		s.observe(1, 30000, 29990, wire.Zstd) // noise
	}
	if e := s.predict(1, largeReply); e.replySaving(wire.Zstd) > 100 || e.replySaving(wire.Snappy) < 1000 {
		t.Errorf("%v, %v", e.replySaving(wire.Zstd), e.replySaving(wire.Snappy))
	}
	for range forgetAfter {
		s.observe(1, 30000, 30000, plain)
	}
	if e := s.predict(1, largeReply); e.replySaving(wire.Zstd) < 1000 {
		t.Error("noise is remembered for ever")
	}
	for i := range uint64(3 * maxShapes) {
		s.observe(i, 100, 100, plain)
	}
	if n := s.len(); n > maxShapes {
		t.Errorf("%d shapes", n)
	}
}

// The shortest round-trip time is forgotten after one to two windows, also if there were no others for a while.
func TestRTTWindow(t *testing.T) {
	var w rttWindow
	at := time.Now()
	for _, c := range []struct{ after, add, want time.Duration }{
		{0, 5, 5},
		{0, 7, 5},
		{rttWindowTime, 8, 5},
		{1, 9, 5},
		{rttWindowTime + 1, 9, 9},
		{rttWindowTime + 1, 3, 3},
		{time.Hour, 9, 9},
		{0, 10, 9},
		{2 * rttWindowTime, 11, 9},
		{2*rttWindowTime + 1, 12, 12},
	} {
		at = at.Add(c.after)
		if w.add(c.add, at); w.min() != c.want {
			t.Errorf("%v later %d: %d, want %d", c.after, c.add, w.min(), c.want)
		}
	}
}
