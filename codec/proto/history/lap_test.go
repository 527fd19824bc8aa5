package history

import (
	"fmt"
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// A record in use is not forgotten when the runs in its message make as many other records as are kept.
func TestRecordsForgottenInUse(t *testing.T) {
	for _, c := range []struct {
		name    string
		limits  *limits
		message []byte
	}{
		{"bytes", &formatLimits, codectest.ForgottenRecords()},
		{"small, by number", &smallLimits, codectest.NestedRecords(1, 100, 4)},
		{"small, by number, two runs", &smallLimits, codectest.NestedRecords(2, 80, 6)},
		{"small, by bytes", &byteLimits, codectest.NestedRecords(1, 120, 250)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSession(c.limits)
			for range 3 {
				s.send(t, c.message)
				s.w.check(t)
				s.r.check(t)
			}
			if s.w.recs.hand == 0 {
				t.Error("no record was forgotten")
			}
		})
	}
}

// A value whose key is forgotten while room is made for it, and which gets the key's number, keeps that key.
func TestKeyForgottenInKeep(t *testing.T) {
	var m model
	m.limits = &smallLimits
	m.reset()
	m.addNode(1, pbwire.BytesType)
	keep := func(s string, key uint32) uint32 { return m.keep(1, []byte(s), hashOf([]byte(s)), key) }
	key := keep("key", 0)
	for i := len(m.values); i < m.limits.values; i++ {
		keep(fmt.Sprint(i), 0)
	}
	for i := range m.values {
		m.values[i].used = uint32(i) != key
	}
	if got := keep("value", key); got != key || m.keyOf(got) != hashOf([]byte("key")) {
		t.Errorf("number %d for %d, key %x", got, key, m.keyOf(got))
	}
	m.check(t)
}

// The buffer of a block that had many values shrinks when few are left.
func TestRoomOfBlocks(t *testing.T) {
	l := byteLimits
	l.values, l.valueBytes = 2000, 1<<20
	var m model
	m.limits = &l
	m.reset()
	m.addNode(1, pbwire.BytesType)
	var stay []uint32 // the first value of each block
	keep := func(s string, key uint32) uint32 {
		for _, id := range stay {
			m.values[id].used = true
		}
		return m.keep(1, []byte(s), hashOf([]byte(s)), key)
	}
	for block := range 20 {
		key := keep(fmt.Sprint("key ", block), 0)
		stay = append(stay, key, keep(fmt.Sprint("first of ", block), key))
		for i := range l.values {
			keep(fmt.Sprint("value ", i, " of ", block), key)
		}
		m.check(t)
	}
}
