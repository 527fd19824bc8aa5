package cluster

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

const (
	// A reply that names an unknown node waits up to unknownWait for a poll. After that the address is
	// treated as unknown for unknownFor, without waiting.
	unknownWait = time.Second
	unknownFor  = 10 * time.Second
	maxUnknown  = 1000 // addresses remembered
)

// View maps servers to their gateways, for the sessions of one gateway.
type View struct {
	c      *Cluster
	member *member // the sessions' node; nil: Sentinels
}

// InCluster reports whether the servers form a cluster. Otherwise Sentinels watch them.
func (v *View) InCluster() bool { return v.c.cfg.Sentinel == nil }

// OfSentinels reports whether the sessions lead to Sentinels.
func (v *View) OfSentinels() bool { return v.member == nil }

// Find returns the address at which clients reach the node that the server calls host:port. If the node is unknown
// Find may wait for a poll: the server may know a node that the gateway has not seen yet.
func (v *View) Find(host, port string) (gateway.Advertised, bool) {
	c := v.c
	if a, ok := c.locate(v.member, host, port); ok {
		return a, true
	}
	key := Address(host, port)
	if c.unknown.isRecent(key) {
		return gateway.Advertised{}, false
	}
	v.AwaitPoll(c.ctx)
	if a, ok := c.locate(v.member, host, port); ok {
		return a, true
	}
	if c.unknown.add(key) {
		c.log.Warn("a cluster node has no gateway: clients redirected there get an error", "node", key, "nodes", c.ports.most)
	}
	return gateway.Advertised{}, false
}

// AwaitPoll waits at most unknownWait for a poll of the servers.
func (v *View) AwaitPoll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, unknownWait)
	defer cancel()
	v.c.pollRounds.await(ctx, v.member)
}

// Renamer returns a Renamer for a client that has connected to local. A cluster node without a gateway gets the
// entry's address; for a redirection to such a node the caller sends an error instead.
func (v *View) Renamer(local net.Addr) Renamer {
	return func(host, port string) (string, string, bool) {
		a, ok := v.Find(host, port)
		switch {
		case ok:
		case v.OfSentinels():
			return "", "", false // not one of the watched servers
		default:
			a = v.c.ports.advertisedAt(0)
		}
		if a.Host == "" && host == "" { // "" means the host that the client has dialled
			return "", a.Port, true
		}
		return a.HostFor(local), a.Port, true
	}
}

// KnownRenamer is like Renamer but never waits for a poll, since Sentinels also name servers that never get a
// gateway. It leaves the addresses of unknown servers unchanged.
func (v *View) KnownRenamer(local net.Addr) Renamer {
	return func(host, port string) (string, string, bool) {
		a, ok := v.c.locate(nil, host, port)
		if !ok {
			return "", "", false
		}
		return a.HostFor(local), a.Port, true
	}
}

// unknownNodes remembers the addresses of nodes without a gateway.
type unknownNodes struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (u *unknownNodes) isRecent(key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return time.Now().Before(u.until[key])
}

// add records an address and reports whether it is new.
func (u *unknownNodes) add(key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, known := u.until[key]
	if u.until == nil || len(u.until) >= maxUnknown {
		u.until = map[string]time.Time{}
	}
	u.until[key] = time.Now().Add(unknownFor)
	return !known
}
