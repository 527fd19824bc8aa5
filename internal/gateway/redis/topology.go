package redis

import (
	"context"
	"net"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
)

// topology knows other servers, and where their gateways are; see cluster.View.
type topology interface {
	// InCluster says whether the servers are a cluster's, OfSentinels whether this one is a Sentinel.
	InCluster() bool
	OfSentinels() bool
	// Find is where clients reach the server that is called so, Look waits until the servers have been
	// asked again.
	Find(host, port string) (gateway.Advertised, bool)
	Look(context.Context)
	// Renamer gives the addresses that a client must see, KnownRenamer those that are known for sure.
	Renamer(local net.Addr) cluster.Renamer
	KnownRenamer(local net.Addr) cluster.Renamer
}

// inCluster says whether the server is a node of a cluster, ofSentinels whether it is a Sentinel.
func inCluster(t topology) bool { return t != nil && t.InCluster() && !t.OfSentinels() }

func ofSentinels(t topology) bool { return t != nil && t.OfSentinels() }
