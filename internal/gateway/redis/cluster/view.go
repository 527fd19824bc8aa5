package cluster

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

const (
	// A reply that names a node which nobody knows waits for a look; then the node's
	// address passes as it is for a while, without waiting.
	unknownWait = time.Second
	unknownFor  = 10 * time.Second
	maxUnknown  = 1000 // of them are remembered
)

// View is what the sessions at one gateway know of the other servers.
type View struct {
	c    *Cluster
	near *member // whose clients they are; nil: of Sentinels
}

// InCluster says whether the servers are a cluster's, and not watched by Sentinels.
func (v *View) InCluster() bool { return v.c.cfg.Sentinel == nil }

// OfSentinels says whether the sessions lead to Sentinels.
func (v *View) OfSentinels() bool { return v.near == nil }

// Find is where clients reach the node of which the server speaks so. It may wait for a look at the
// cluster, where the server knows more than we do.
func (v *View) Find(host, port string) (gateway.Advertised, bool) {
	c := v.c
	if m := c.table.Load().find(v.near, host, port); m != nil {
		return c.placeOf(m), true
	}
	key := Address(host, port)
	if c.odd.recent(key) {
		return gateway.Advertised{}, false
	}
	v.Look(c.ctx)
	if m := c.table.Load().find(v.near, host, port); m != nil {
		return c.placeOf(m), true
	}
	if c.odd.remember(key) {
		c.log.Warn("no gateway stands for a node of the cluster: a client that is sent there gets an error", "node", key, "nodes", c.ports.most)
	}
	return gateway.Advertised{}, false
}

// Look waits for a look at the servers, for a moment.
func (v *View) Look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, unknownWait)
	defer cancel()
	v.c.round.await(ctx, v.near)
}

// Renamer gives the addresses of nodes as a client must see them that has connected to local. A node of
// a cluster without a gateway has the entry's: a client that goes there is told so.
func (v *View) Renamer(local net.Addr) Renamer {
	return func(host, port string) (string, string, bool) {
		a, ok := v.Find(host, port)
		switch {
		case ok:
		case v.OfSentinels():
			return "", "", false // a server that is none of ours
		default:
			a = v.c.ports.advertisedAt(0)
		}
		if a.Host == "" && host == "" { // the host that the client has dialled
			return "", a.Port, true
		}
		return a.HostFor(local), a.Port, true
	}
}

// KnownRenamer is a Renamer of what is known now: Sentinels speak of much else.
func (v *View) KnownRenamer(local net.Addr) Renamer {
	return func(host, port string) (string, string, bool) {
		m := v.c.table.Load().find(nil, host, port)
		if m == nil {
			return "", "", false
		}
		a := v.c.placeOf(m)
		return a.HostFor(local), a.Port, true
	}
}

// unknownNodes remembers the addresses that no gateway stands for.
type unknownNodes struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (u *unknownNodes) recent(key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Now().Before(u.until[key])
}

// remember reports whether the address is news.
func (u *unknownNodes) remember(key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, known := u.until[key]
	if u.until == nil || len(u.until) >= maxUnknown {
		u.until = map[string]time.Time{}
	}
	u.until[key] = time.Now().Add(unknownFor)
	return !known
}
