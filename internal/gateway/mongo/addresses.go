package mongo

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// addresses are those by which the clients of a gateway find the members of a replica set: its
// own for the member behind it, and for others what Topology knows.
type addresses struct {
	*Topology
	own atomic.Pointer[gateway.Advertised] // set when it serves; nil: clients can't be told of it
	log *slog.Logger

	direct  sync.Map     // members without a gateway that the log named
	directs atomic.Int64 // how many those are
}

// learnMember takes the name that the server goes by for this gateway's.
func (a *addresses) learnMember(name string) {
	if own := a.own.Load(); own != nil && a.learn(name, *own) {
		a.log.Info("clients find the member of the replica set at the gateway", "member", name, "gateway", net.JoinHostPort(own.Host, own.Port))
	}
}

// noteMember takes notice of what the server behind the gateway says of itself.
func (a *addresses) noteMember(d described) {
	if d.me == "" {
		return
	}
	a.learnMember(d.me)
	if own := a.own.Load(); own != nil {
		host := own.Host
		if host == "" {
			host = "THIS_HOST"
		}
		a.log.Info("the server is a member of a replica set; drivers find all members that have a gateway from here with",
			"uri", "mongodb://"+net.JoinHostPort(host, own.Port)+"/?replicaSet="+d.set, "member", d.me)
	}
}

// at gives the address of a member as a client must see it that is connected to local; false:
// none but the member's own. It waits for gateways that begin.
func (a *addresses) at(member []byte, local net.Addr) (string, bool) {
	found, ok := a.find(member)
	if !ok && a.settle() {
		found, ok = a.find(member)
	}
	if !ok {
		return "", false
	}
	return found.SeenFrom(local), true
}

// warnDirect tells once for each member that clients will go to it directly.
func (a *addresses) warnDirect(member []byte) {
	if len(member) == 0 || a.directs.Load() >= maxMembers {
		return
	}
	if _, told := a.direct.LoadOrStore(string(member), true); !told {
		a.directs.Add(1)
		a.log.Warn("no gateway stands for a member of the replica set: clients connect to it directly, and uncompressed", "member", string(member))
	}
}
