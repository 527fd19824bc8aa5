package grpc

import (
	"net"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
)

// session serves a client's connection.
type session struct {
	server *http2.Server
	pools  clientPools        // connections to the upstream
	ends   *lanes.Ends        // lanes of the client's link; nil: none
	memory *memory.ConnMemory // memory budgets of the client
	faults http2.Faults
	done   chan struct{} // closed when Run returns

	calls runningCalls
	grace time.Duration   // how long a drain waits for quiet streams
	last  <-chan struct{} // closed when a drain ends all calls
}

func newSession(g *Gateway, client net.Conn) gateway.Session {
	c := &g.cfg
	addr, payer := client.RemoteAddr(), gateway.BudgetAddress(client)
	var ahead []byte
	carried := false
	var ends *lanes.Ends
	if g.links != nil && c.Peers {
		if client, ahead, carried = acceptLink(g.links, client); client == nil {
			return nil
		}
	}
	if carried {
		ends = g.lanesOf(client)
	}
	s := &session{faults: g.shared.Faults, done: make(chan struct{}), grace: c.Grace, last: g.last, ends: ends}
	s.memory = memory.NewConnMemory(addr, g.requests.Client(payer), g.replies.Client(payer))
	s.pools.init(g, payer)
	s.server = http2.NewServer(client, http2.ServerConfig{
		Handler:    &handler{shared: &g.shared, calls: &s.calls, memory: s.memory, pools: &s.pools, isLink: carried, ends: ends},
		MaxStreams: c.MaxStreams, Window: c.Window, ConnWindow: connWindow(max(c.Window, minWindow), c.MaxStreams),
		MaxHeader: c.MaxHeader, Ahead: ahead,
		Faults: g.shared.Faults,
	})
	return s
}

// lanesOf returns the lanes of a client's link, or nil.
func (g *Gateway) lanesOf(client net.Conn) *lanes.Ends {
	e := lanes.OfLink(client, g.shared.lanes)
	if e == nil && g.shared.lanes != nil {
		g.oldClient.Do(func() {
			g.cfg.Log.Info("the gateway at the other end of a link is an older version without lanes, so each cinch-proto message is compressed by itself",
				"client", client.RemoteAddr().String())
		})
	}
	return e
}

// Run serves the connection's streams until either side closes it or Drain ends it.
func (s *session) Run() {
	defer close(s.done)
	defer s.memory.Close()
	defer s.ends.Close()
	defer s.pools.close()
	_ = s.server.Serve()
}

// Drain starts a graceful shutdown, and returns at once. The server closes the connection after the last
// stream.
func (s *session) Drain() { go s.drain(s.grace, s.last) }

// drain sends GOAWAY, ends streams that are quiet for grace, and all calls when last is closed.
func (s *session) drain(grace time.Duration, last <-chan struct{}) {
	defer gateway.CatchPanic(s.faults.Log, s.faults.Stats, s.server.Close)
	s.server.Drain()
	s.calls.endQuiet() // records what has moved so far
	look := time.NewTicker(max(grace, time.Millisecond))
	defer look.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-look.C:
			s.calls.endQuiet()
		case <-last:
			s.calls.endAll()
			last = nil
		}
	}
}

// drainMargin is the time between ending the calls of a drain and cutting their connections.
const drainMargin = time.Second

// drainable is a call, as needed by a drain.
type drainable interface {
	progress() uint64 // pieces so far; 0: the response has not begun
	expire()          // ends the call with a status that names the shutdown
}

// runningCalls is the set of running calls of a client's connection.
type runningCalls struct {
	mu    sync.Mutex
	calls map[drainable]uint64 // by call: its progress when a drain last checked
}

func (u *runningCalls) begin(c drainable) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls == nil {
		u.calls = map[drainable]uint64{}
	}
	u.calls[c] = 0
}

func (u *runningCalls) end(c drainable) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.calls, c)
}

// endQuiet ends the calls that have made no progress since the last check. It spares calls whose response has not
// begun, as their server may be working.
func (u *runningCalls) endQuiet() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c, before := range u.calls {
		moved := c.progress()
		if u.calls[c] = moved; before > 0 && moved == before {
			c.expire()
		}
	}
}

func (u *runningCalls) endAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.calls {
		c.expire()
	}
}
