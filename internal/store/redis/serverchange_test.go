package redis

import (
	"context"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

func TestReadyOnNewConnections(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	x := testDict(t, "reach")
	before := time.Now()
	if d.ReadyOn(x.Number(), before) {
		t.Error("ready before it was stored")
	}
	mustPublish(t, d, x)
	for dialed, want := range map[time.Time]bool{
		{}:                           true,
		before:                       true,
		before.Add(overlap / 2):      true,
		time.Now().Add(overlap):      false,
		time.Now().Add(time.Hour):    false,
		before.Add(-24 * time.Hour):  true,
		before.Add(10 * time.Second): false,
	} {
		if got := d.ReadyOn(x.Number(), dialed); got != want {
			t.Errorf("dialed %v after the check began: %v", dialed.Sub(before), got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { d.ReadyOn(x.Number(), before) }); n != 0 {
		t.Errorf("ReadyOn allocates %v times", n)
	}
	d.Lost()
	if !d.ReadyOn(x.Number(), before) || d.ReadyOn(x.Number(), time.Now()) {
		t.Error("when a connection was lost, older ones must stay ready and new ones wait")
	}
	readyAfterChecks(t, d, x.Number())
	d.Kick()
	if d.ReadyOn(x.Number(), before) {
		t.Error("ready after a kick")
	}
	mustRecheck(t, d)
	must(t, client.FunctionFlush(t.Context()).Err())
	readyAfterChecks(t, d, x.Number())
}

// readyAfterChecks checks until a connection dialed now is covered: a check may take longer than the overlap.
func readyAfterChecks(t *testing.T, d *Dicts, number uint32) {
	t.Helper()
	testenv.Eventually(t, "ready after a check", func() bool {
		mustRecheck(t, d)
		return d.ReadyOn(number, time.Now())
	})
}

// Many connections request few checks, and each connection is covered by one.
func TestDialedHasChecksMade(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	x := testDict(t, "dialed")
	mustPublish(t, d, x)
	loads := &asked{}
	client.AddHook(loads)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); d.Run(ctx) }()
	const rounds = 4
	began := time.Now()
	for range rounds {
		time.Sleep(overlap)
		var dialed time.Time
		for range 1000 {
			dialed = time.Now()
			d.Dialed()
		}
		testenv.Eventually(t, "ready on the connection", func() bool { return d.ReadyOn(x.Number(), dialed) })
	}
	cancel()
	<-ended
	most := 2*rounds + 2 + int(time.Since(began)/overlap) // one more check for each overlap
	if n := loads.count("function list"); n < rounds || n > most {
		t.Errorf("%d checks for %d connections, of at most %d", n, rounds*1000, most)
	}
}
