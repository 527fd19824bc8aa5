package link

import (
	"testing"
	"testing/synctest"
	"time"
)

// However much the owners of a client's first links want to remember, something is left for the next link.
func TestLinksShareTheHistory(t *testing.T) {
	const step = 1 << 20
	h := &history{limit: 256 * step}
	c := h.client("one")
	var greedy [4]int64
	for i := range greedy {
		for c.lend(&greedy[i], step) {
		}
	}
	other := h.client("other")
	var next int64
	for other.lend(&next, step) {
	}
	if next < 4*step {
		t.Errorf("a fifth link gets %d MiB after four greedy ones", next/step)
	}
	for i := range greedy {
		if most := h.limit / 4 * 3 / 2; greedy[i] > most {
			t.Errorf("link %d has %d MiB, more than a half of what is lent", i, greedy[i]/step)
		}
		c.giveBack(&greedy[i], greedy[i])
	}
	other.giveBack(&next, next)
	if h.used != 0 {
		t.Errorf("%d bytes are left", h.used)
	}
}

// A client that takes all the memory it gets, on any number of links, leaves some for a second and a third client, and
// its refusals don't cost other clients their idle histories.
func TestClientsShareTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step = 1 << 20
		h := &history{limit: 256 * step}
		names := []string{"greedy", "second", "third"}
		clients := make([]*clientHistory, len(names))
		for i, name := range names {
			clients[i] = h.client(name)
			for clients[i].grab(step) {
			}
			if i == 0 && clients[1] == nil && !clients[0].tight() {
				t.Error("the greedy client was refused memory, and its idle histories need not yield")
			}
		}
		for i, least := range []int64{192, 48, 12} {
			if got := clients[i].used / step; got < least-1 || got > least {
				t.Errorf("%s has %d MiB, want %d", names[i], got, least)
			}
		}
		clients[1].free(clients[1].used)
		clients[2].free(clients[2].used)
		time.Sleep(time.Minute)
		if clients[0].grab(step) || !clients[0].tight() || clients[1].tight() {
			t.Error("after a refusal that only the greedy client has caused, others must yield")
		}
		same := h.client("greedy")
		if same != clients[0] {
			t.Error("a second link of a client has a share of its own")
		}
		same.leave()
		clients[0].leave()
		if h.clients["greedy"] == nil {
			t.Error("a client was forgotten that holds memory")
		}
		clients[0].free(clients[0].used)
		if h.clients["greedy"] != nil {
			t.Error("a client without links and memory is remembered")
		}
	})
}

// While memory is asked for in vain, idle histories are dropped soon, and not only when nearly all is used.
func TestIdleHistoriesYieldWhenMemoryIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{limit: 256 << 20}
		c, idle := h.client("one"), h.client("idle")
		var one, two int64
		for c.lend(&one, 1<<20) || c.lend(&two, 1<<20) {
		}
		if !c.tight() {
			t.Error("a link was refused memory, and the client's idle ones need not yield")
		}
		time.Sleep(time.Minute)
		if c.tight() {
			t.Error("idle ones are to yield though none has asked for a minute")
		}
		if idle.grab(200<<20) || !idle.tight() || !c.tight() {
			t.Error("a stream of a client with nothing was refused memory, and idle ones need not yield")
		}
	})
}
