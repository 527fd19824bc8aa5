package tunnel

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The histories of many connections that have carried data stay below the limit, and are freed after the idle
// timeout. Then each connection costs only six sockets and eight goroutines, including those of the test's own
// client and server.
func TestMemoryOfManyConnections(t *testing.T) {
	const limit, most = 64 << 20, 40 << 10
	connections := 1000
	if testing.Short() {
		connections = 200
	}
	entry, exit := pair(t, server(t, echo), func(c *Config) {
		c.History, c.IdleTimeout = limit, 300*time.Millisecond
	})
	message := newSpeech(1).next(20_000)
	exchange(t, dial(t, entry.addr), message)
	before := testenv.InUse()
	all := make([]net.Conn, connections)
	for i := range all {
		c := dial(t, entry.addr)
		_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
		exchange(t, c, message)
		all[i] = c
	}
	for _, e := range []*end{entry, exit} {
		if h := e.links.State(); h.Most > limit {
			t.Errorf("histories of %d bytes, the limit is %d", h.Most, limit)
		}
		waitFor(t, func() bool { return e.links.State().Used == 0 })
		if e.links.State().Dropped == 0 {
			t.Error("no history was forgotten")
		}
	}
	each := (testenv.InUse() - before) / int64(connections)
	t.Logf("%d bytes for each idle connection, client and server of the test included", each)
	if !testenv.RaceDetector && each > most { // the race detector uses memory itself
		t.Errorf("an idle connection costs %d bytes, more than %d", each, most)
	}
	for _, c := range all { // and they all still work
		exchange(t, c, message[:100])
	}
}

// A peer gives back a grant that it does not use because its own memory is short.
func TestUnusedGrantsAreGivenBack(t *testing.T) {
	_, first := codec.New(codec.Options{}).StreamBytes(1, 17)
	// An eighth of this limit, all that hellos may promise, is less than the first window takes.
	exit := serve(t, server(t, echo), true, func(c *Config) { c.History = int64(2 * first) })
	entry := serve(t, exit.addr, false, func(c *Config) { c.History, c.IdleTimeout = 1, 50*time.Millisecond })
	c := dial(t, entry.addr)
	exchange(t, c, bytes.Repeat([]byte("something that is said "), 300))
	waitFor(t, func() bool { return exit.links.State().Most > 0 })
	waitFor(t, func() bool { return exit.links.State().Used == 0 })
	exchange(t, c, []byte("and goes on"))
}
