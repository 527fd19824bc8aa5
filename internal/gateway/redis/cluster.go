package redis

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// ClusterConfig configures a gateway to a Redis Cluster.
type ClusterConfig struct {
	// Config is the configuration of every node's gateway, except Dial and Dicts, which are set for each node.
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

// NewCluster returns a gateway to all nodes of a cluster. It is not serving yet.
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
	// Renamer maps node addresses to those that a client must see, KnownRenamer only those known without a
	// poll.
	Renamer(local net.Addr) cluster.Renamer
	KnownRenamer(local net.Addr) cluster.Renamer
}

// inCluster reports whether the server is a node of a cluster, ofSentinels whether it is a Sentinel.
func inCluster(t topology) bool { return t != nil && t.InCluster() && !t.OfSentinels() }

func ofSentinels(t topology) bool { return t != nil && t.OfSentinels() }

// nodeReplies carries replies that name nodes.
type nodeReplies struct {
	frames    *frames
	copier    *copier
	redirects *redirects
}

// carry carries the reply to a subcommand of CLUSTER or SENTINEL.
func (n *nodeReplies) carry(subcommand string) error {
	w := cluster.RewritingOf(subcommand)
	line, h, err := n.frames.peek()
	if err != nil {
		return err
	}
	elements := int64(1)
	switch {
	case h.Kind == resp.Error:
		return n.copier.copy(shapeNone, nil)
	case w.Hidden:
		if err := n.copier.skip(); err != nil {
			return err
		}
		return n.frames.emit(resp.AppendArray(nil, 0))
	case !w.Whole && h.Kind == resp.Array:
		if err := n.frames.emitLine(line); err != nil {
			return err
		}
		elements = max(h.N, 0)
	}
	for range elements {
		if err := n.carryRenamed(w, n.redirects.renamer()); err != nil {
			return err
		}
	}
	return nil
}

func (n *nodeReplies) carryRenamed(w cluster.Rewriting, to cluster.Renamer) error {
	b, err := n.gather()
	if err != nil {
		return err
	}
	out, err := w.Append(nil, b, to)
	if err != nil {
		return fmt.Errorf("%w: %w", resp.ErrReply, err)
	}
	return n.frames.emit(out)
}

// message carries a message that answers no request. Sentinels publish addresses in them.
func (n *nodeReplies) message() error {
	name, err := n.frames.firstWord()
	if err != nil {
		return err
	}
	if name != "message" && name != "pmessage" {
		return n.copier.copy(shapeNone, nil)
	}
	view, life := n.redirects.view, n.redirects.life
	awaitPoll := func() { view.AwaitPoll(life.Context()) }
	return n.carryRenamed(cluster.RewritingOfMessage(awaitPoll), view.KnownRenamer(life.Client.LocalAddr()))
}

// gather reads the current element into memory.
func (n *nodeReplies) gather() ([]byte, error) {
	var b bytes.Buffer
	n.frames.aside = &b
	err := n.copier.copy(shapeNone, nil)
	n.frames.aside = nil
	return b.Bytes(), err
}

// redirects replaces nodes by their gateways in redirections that servers send to clients.
type redirects struct {
	frames *frames
	life   *gateway.PumpedSession
	view   topology // nil: no other nodes are known
}

// renamer returns the mapping from node addresses to those that the client must see.
func (d *redirects) renamer() cluster.Renamer {
	return d.view.Renamer(d.life.Client.LocalAddr())
}

// emitErrorLine sends the current error. In a cluster it may redirect the client, but not past the gateways,
// where it would read envelopes.
func (d *redirects) emitErrorLine(line []byte) error {
	view := d.view
	_, host, port, _, ok := cluster.SplitRedirection(line)
	if !ok || view == nil || d.frames.mute {
		return d.frames.emitLine(line)
	}
	var out []byte
	if _, known := view.Find(string(host), string(port)); known || view.OfSentinels() {
		out = cluster.AppendRedirection(nil, line, d.renamer())
	} else {
		text := noGateway
		if bytes.HasPrefix(line, []byte("-REDIRECT ")) {
			text = noPrimary
		}
		out = resp.AppendError(nil, fmt.Sprintf(text, cluster.Address(string(host), string(port))))
	}
	err := d.frames.emit(out)
	d.frames.in.Discard(len(line))
	return err
}

// noGateway is the error for a redirection to a node without a gateway. Clients retry after it, since the
// node may have just joined.
const noGateway = "CLUSTERDOWN cinch: the node %s has no gateway yet; see the gateway's log, and nodes in its configuration"

// noPrimary is the same error for a client of a replica that was redirected to the primary.
const noPrimary = "READONLY cinch: the primary %s has no gateway yet; see the gateway's log"
