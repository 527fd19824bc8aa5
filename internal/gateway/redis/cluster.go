package redis

import (
	"context"
	"log/slog"
	"net"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
)

// ClusterConfig configures a gateway to a Redis Cluster.
type ClusterConfig struct {
	// Config is the configuration of every node's gateway, except Dial and Dicts, which each gets for itself.
	// Upstream.Address is not used.
	Config
	Seeds     []endpoint.Upstream // first nodes to ask; they have Upstream's credentials and TLS
	Advertise string              // host:port at which clients reach the first listener; "": its address
	Nodes     int                 // maximum number of nodes with a listener; 0: cluster.DefaultNodes
	Sentinel  *SentinelConfig     // nil: a cluster

	// JoinDicts returns the dictionaries of a node that joins, to which dial connects; nil: no dictionaries.
	// Follower is notified when nodes leave, so that it can end their dictionaries.
	JoinDicts func(id string, dial func(context.Context) (net.Conn, error)) Dicts
	Follower  cluster.Follower // nil: none

	Listen func(address string) (net.Listener, error) // listens on the ports of nodes; nil: gateway.Listen
}

// SentinelConfig configures servers that Sentinels watch.
type SentinelConfig = cluster.SentinelConfig

// NewCluster returns a gateway to all nodes of a cluster that is not serving yet.
func NewCluster(cfg ClusterConfig) *cluster.Cluster {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := cluster.Config{
		Name: cfg.Name, Upstream: cfg.Upstream, Seeds: cfg.Seeds, TLS: cfg.TLS, Policy: cfg.Policy, MaxConns: cfg.MaxConns,
		Refusal: tooManyClients, Advertise: cfg.Advertise, Nodes: cfg.Nodes, New: cfg.newNode, Follower: cfg.Follower, Listen: cfg.Listen, Stats: cfg.Stats, Log: cfg.Log,
	}
	if cfg.Sentinel != nil {
		watched := *cfg.Sentinel
		watched.New = cfg.newSentinelGateway
		c.Sentinel = &watched
	}
	return cluster.New(c)
}

// newNode returns the gateway of a node.
func (cfg *ClusterConfig) newNode(site cluster.Site) cluster.Gateway {
	own := cfg.Config
	own.Upstream.Address, own.Dial, own.Policy, own.view = site.Address, site.Dial, site.Policy, site.View
	if cfg.JoinDicts != nil {
		own.Dicts = cfg.JoinDicts(site.ID, site.DialOwn)
	}
	return NewGateway(own)
}

// newSentinelGateway returns the gateway for clients that ask Sentinels.
func (cfg *ClusterConfig) newSentinelGateway(site cluster.Site) cluster.Gateway {
	own := cfg.Config
	own.Name += " (sentinel)"
	own.Policy, own.Dicts, own.Sampler, own.WhatIf = nil, nil, nil, nil
	own.Dial, own.view = site.Dial, site.View
	return NewGateway(own)
}

// topology tracks other servers and their gateways; see cluster.View.
type topology interface {
	// InCluster reports whether the servers form a cluster, OfSentinels whether this one is a Sentinel.
	InCluster() bool
	OfSentinels() bool
	// Find returns the address at which clients reach a server. AwaitPoll waits until the servers have been asked
	// again.
	Find(host, port string) (gateway.Advertised, bool)
	AwaitPoll(context.Context)
	// Renamer maps node addresses to those that a client must see, KnownRenamer only addresses known for
	// sure.
	Renamer(local net.Addr) cluster.Renamer
	KnownRenamer(local net.Addr) cluster.Renamer
}

// inCluster reports whether the server is a node of a cluster, ofSentinels whether it is a Sentinel.
func inCluster(t topology) bool { return t != nil && t.InCluster() && !t.OfSentinels() }

func ofSentinels(t topology) bool { return t != nil && t.OfSentinels() }
