package redis

import (
	"bytes"
	"fmt"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// redirects sends clients to other nodes' gateways where servers send them to nodes.
type redirects struct {
	frames *frames
	life   *gateway.Life
	view   topology // nil: no other nodes are known
}

// How a session to a node of a cluster treats what names other nodes; see
// package cluster for what that is.

// renamer gives the addresses of nodes as the client must see them.
func (d *redirects) renamer() cluster.Renamer {
	return d.view.Renamer(d.life.Client.LocalAddr())
}

// emitErrorLine sends the error at hand. In a cluster it may send the client elsewhere, but not past
// the gateways, where it would read envelopes.
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

// noGateway is what a client hears that would have to go to a node without a gateway. Clients try again
// after such an error: the node may have just joined.
const noGateway = "CLUSTERDOWN cinch: no gateway stands for the node %s (yet); see its log, and nodes in its configuration"

// noPrimary is the same to a client of a replica that was sent to the primary.
const noPrimary = "READONLY cinch: no gateway stands for the primary %s (yet); see its log"
