package redis

import (
	"bytes"
	"fmt"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// nodeCommands handles commands about other servers: CLUSTER, SENTINEL, CLIENT CAPA, ASKING, READONLY.
type nodeCommands struct {
	upstream *upstreamWriter
	user     *user
	view     topology
}

// clusterCommand forwards CLUSTER. In a cluster, the addresses in its reply are rewritten.
func (c *nodeCommands) clusterCommand(r *request) error {
	if !inCluster(c.view) {
		return c.upstream.forward(r, entry{})
	}
	for _, sub := range [...]string{"slots", "shards", "nodes", "replicas", "slaves"} {
		if resp.IsWord(r.args[1], sub) {
			return c.upstream.forward(r, entry{kind: kindCluster, data: &entryData{text: sub}})
		}
	}
	return c.upstream.forward(r, entry{})
}

// capabilities forwards CLIENT CAPA. It removes "redirect" if no gateway is known for the primary: a replica
// would redirect the client past the gateways, where it would read envelopes. Without it the replica serves
// the client like any other.
func (c *nodeCommands) capabilities(r *request) error {
	if c.view != nil {
		return c.upstream.forward(r, entry{})
	}
	args := append([][]byte(nil), r.args...)
	for i := 2; i < len(args); i++ {
		if resp.IsWord(args[i], "redirect") {
			args[i] = []byte("none") // the server ignores unknown capabilities
		}
	}
	return c.upstream.forward(&request{cmd: r.cmd, args: args}, entry{})
}

// sentinelCommand forwards SENTINEL. If the server is a Sentinel, the addresses in its reply are rewritten.
func (c *nodeCommands) sentinelCommand(r *request) error {
	if !ofSentinels(c.view) {
		return c.upstream.forward(r, entry{})
	}
	if resp.IsWord(r.args[1], "replicas") || resp.IsWord(r.args[1], "slaves") {
		return c.upstream.forward(r, entry{kind: kindCluster, data: &entryData{text: "replicas of"}})
	}
	for _, sub := range [...]string{"get-master-addr-by-name", "master", "masters", "sentinels"} {
		if resp.IsWord(r.args[1], sub) {
			return c.upstream.forward(r, entry{kind: kindCluster, data: &entryData{text: sub}})
		}
	}
	return c.upstream.forward(r, entry{})
}

func (c *nodeCommands) asking(r *request) error {
	c.upstream.asking.next = !c.upstream.tx.open
	return c.upstream.forward(r, entry{})
}

// readOnly forwards READONLY and READWRITE. A client may then read from a replica, and the second connection
// must do the same.
func (c *nodeCommands) readOnly(r *request) error {
	c.user.sideConn.setReadOnly(resp.IsWord(r.args[0], "readonly"))
	return c.upstream.forward(r, entry{})
}

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
	out := cluster.AppendRedirection(nil, line, d.renamer())
	if _, known := view.Find(string(host), string(port)); !known && !view.OfSentinels() {
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
