package link

import (
	"testing"
	"testing/synctest"
	"time"
)

// However much the first links' owners want to remember, something is left for the next.
func TestLinksShareTheHistory(t *testing.T) {
	const step = 1 << 20
	h := &history{limit: 256 * step}
	var greedy [4]int64
	for i := range greedy {
		for h.lend(&greedy[i], step) {
		}
	}
	var next int64
	for h.lend(&next, step) {
	}
	if next < 4*step {
		t.Errorf("a fifth link gets %d MiB after four greedy ones", next/step)
	}
	for i := range greedy {
		if most := h.limit / 4 * 3 / 2; greedy[i] > most {
			t.Errorf("link %d has %d MiB, more than a half of what is lent", i, greedy[i]/step)
		}
		h.giveBack(&greedy[i], greedy[i])
	}
	h.giveBack(&next, next)
	if h.used != 0 {
		t.Errorf("%d bytes are left", h.used)
	}
}

// While memory is wanted that there is not, idle histories are given up soon, and not only when nearly all is used.
func TestIdleHistoriesYieldWhenMemoryIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{limit: 256 << 20}
		var one, two int64
		for h.lend(&one, 1<<20) || h.lend(&two, 1<<20) {
		}
		if !h.tight() {
			t.Error("a link was refused memory, and idle ones need not yield")
		}
		time.Sleep(time.Minute)
		if h.tight() {
			t.Error("idle ones are to yield though none has asked for a minute")
		}
		if h.grab(200<<20) || !h.tight() {
			t.Error("a stream was refused memory, and idle ones need not yield")
		}
	})
}
