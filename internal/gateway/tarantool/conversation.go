package tarantool

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// conversation is what is said to the server for one client, and what of ours is said to the client. All
// that goes upstream goes through it, so that each reply finds its exchange.
type conversation struct {
	toServer, toClient sink
	originals          *originals
	outstanding        *outstanding
	dead               <-chan struct{} // closed when the reply pump has ended
	catalog            *catalog
	stats              *gateway.Stats

	submitting sync.Mutex                    // held while a request is noted and written
	server     atomic.Pointer[store.Version] // as it said in its greeting; nil: it has not yet
}

// newConversation returns that of a session.
func newConversation(life *gateway.Life, known *catalog, stats *gateway.Stats) *conversation {
	kept := &originals{budget: life.Requests}
	return &conversation{
		toServer:  sink{conn: life.Upstream, peer: gateway.FromUpstream, account: life.Requests},
		toClient:  sink{conn: life.Client, peer: gateway.FromClient, account: life.Replies},
		originals: kept, outstanding: newOutstanding(life.Replies, kept), dead: life.Dead(), catalog: known, stats: stats,
	}
}

// submit writes requests in the order in which they are noted.
func (c *conversation) submit(sync uint64, e exchange, frame []byte) error {
	c.submitting.Lock()
	defer c.submitting.Unlock()
	if !c.outstanding.push(sync, e, c.toServer.flush) {
		return net.ErrClosed
	}
	return c.toServer.write(frame)
}

// submitNow is submit and flush.
func (c *conversation) submitNow(sync uint64, e exchange, frame []byte) error {
	if err := c.submit(sync, e, frame); err != nil {
		return err
	}
	return c.toServer.flush()
}

// probe sends a PING behind the requests outside of streams. The server answers it when it has begun
// with these, though some may take long.
func (c *conversation) probe() error {
	sync := ownSync()
	return c.submitNow(sync, exchange{kind: wire.Ping, probe: true}, wire.AppendPing(nil, sync))
}

// ownSync numbers a request of ours. No client's has that number, but by a chance that is none.
// It takes nine bytes in a frame, so another can be written in its place.
func ownSync() uint64 { return rand.Uint64() | 1<<63 }

// enter waits until the client's next request may go into a lane, and gives the stamp that it carries
// there. It reports false when the reply pump has ended.
func (c *conversation) enter(stream uint64, alone bool) (stamp uint64, ok bool) {
	return c.outstanding.enter(stream, alone, c.toServer.flush, c.probe)
}

// alone waits until nothing in a held lane can be refused. It reports false when something was.
func (c *conversation) alone(stream uint64) (bool, error) {
	return c.outstanding.alone(stream, c.probe)
}

// refuse answers a request with an error.
func (c *conversation) refuse(sync uint64, no *refusal) error {
	c.stats.Guarded(no.what, "refused")
	return c.toClient.send(wire.AppendError(nil, sync, c.catalog.seen.Load(), no.code, no.text))
}

// serverVersion is what the greeting says, zero for nothing.
func (c *conversation) serverVersion() store.Version {
	if v := c.server.Load(); v != nil {
		return *v
	}
	return store.Version{}
}
