package mongo

import (
	"testing"
	"time"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"

	"github.com/cinch-layer/cinch/internal/policy"
)

// TestAutoFollowsTheLink gives the chooser links of known speed: messages stay plain on fast ones, and get
// the best codec on slow ones; small messages are never compressed.
func TestAutoFollowsTheLink(t *testing.T) {
	var both compressorSet
	both.add(wire.Snappy)
	both.add(wire.Zstd)
	rule := &policy.MessageRule{Auto: true}
	large := estimate{requestRule: rule, replyRule: rule, requestBytes: 170, expected: forecast{bytes: 35000}, hasReply: true}
	small := estimate{requestRule: rule, replyRule: rule, requestBytes: 86, expected: forecast{bytes: 60}, hasReply: true}
	for _, c := range []struct {
		mbit float64
		want wire.CompressorID
	}{{100_000, plain}, {10_000, plain}, {450, wire.Snappy}, {50, wire.Zstd}, {5, wire.Zstd}} {
		var l linkSpeed
		for range 100 {
			l.observeReply(35000, 30000, time.Duration(30000*8/c.mbit*1000), 0)
		}
		if id, _, reason := l.fastest(&large, both); id != c.want {
			t.Errorf("%v Mbit/s: %d (%s), want %d", c.mbit, id, reason, c.want)
		}
		if id, _, _ := l.fastest(&small, both); id != plain {
			t.Errorf("%v Mbit/s: a ping is compressed", c.mbit)
		}
		explored := 0
		for range 2 * exploreEvery {
			if id, _, _ := l.fastest(&large, both); id != c.want {
				explored++
			}
		}
		if want := map[bool]int{true: 0, false: 4}[c.want == plain]; explored != want {
			t.Errorf("%v Mbit/s: %d explored, want %d", c.mbit, explored, want)
		}
	}
	var unknown linkSpeed
	if id, _, _ := unknown.fastest(&large, both); id == plain {
		t.Error("an unknown link counts as fast")
	}
	var none linkSpeed
	if id, _, _ := none.fastest(&large, 1<<wire.Zlib); id != plain {
		t.Error("zlib was chosen")
	}
}

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
