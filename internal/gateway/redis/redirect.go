package redis

import (
	"bytes"
	"fmt"

	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// How a session to a node of a cluster treats what names other nodes; see
// package cluster for what that is.

// maxNodesBytes bounds what is held of a reply that is rewritten: all of CLUSTER NODES, or
// one element of the others.
const maxNodesBytes = 16 << 20

// clusterCommand rewrites the addresses in what CLUSTER answers.
func (s *session) clusterCommand(r *request) error {
	if !s.g.inCluster() {
		return s.forward(r, entry{})
	}
	for _, sub := range [...]string{"slots", "shards", "nodes", "replicas", "slaves"} {
		if resp.IsWord(r.args[1], sub) {
			return s.forward(r, entry{kind: kindCluster, op: &op{text: sub}})
		}
	}
	return s.forward(r, entry{})
}

// renamer gives the addresses of nodes as the client must see them.
func (p *replyPump) renamer() cluster.Renamer {
	return p.s.g.cfg.view.Renamer(p.s.conn.LocalAddr())
}

// emitErrorLine sends the error at hand. In a cluster it may send the client elsewhere, but not past
// the gateways, where it would read envelopes.
func (p *replyPump) emitErrorLine(line []byte) error {
	view := p.s.g.cfg.view
	_, host, port, _, ok := cluster.SplitRedirection(line)
	if !ok || view == nil || p.mute {
		return p.emitLine(line)
	}
	out := cluster.AppendRedirection(nil, line, p.renamer())
	if _, known := view.Find(string(host), string(port)); !known && !view.OfSentinels() {
		text := noGateway
		if bytes.HasPrefix(line, []byte("-REDIRECT ")) {
			text = noPrimary
		}
		out = resp.AppendError(nil, fmt.Sprintf(text, cluster.Address(string(host), string(port))))
	}
	err := p.emit(out)
	p.in.Discard(len(line))
	return err
}

// noGateway is what a client hears that would have to go to a node without a gateway. Clients try again
// after such an error: the node may have just joined.
const noGateway = "CLUSTERDOWN cinch: no gateway stands for the node %s (yet); see its log, and nodes in its configuration"

// noPrimary is the same to a client of a replica that was sent to the primary.
const noPrimary = "READONLY cinch: no gateway stands for the primary %s (yet); see its log"

// capabilities passes CLIENT CAPA on. A client that can be redirected by a replica is not where no
// gateway is known for the primary: it would go past the gateways, and read envelopes. The replica
// serves it then as any other client.
func (s *session) capabilities(r *request) error {
	if s.g.cfg.view != nil {
		return s.forward(r, entry{})
	}
	args := append([][]byte(nil), r.args...)
	for i := 2; i < len(args); i++ {
		if resp.IsWord(args[i], "redirect") {
			args[i] = []byte("none") // the server passes over what it does not know
		}
	}
	return s.forward(&request{cmd: r.cmd, args: args}, entry{})
}

// sentinelCommand rewrites the addresses in what a Sentinel answers.
func (s *session) sentinelCommand(r *request) error {
	if !s.g.ofSentinels() {
		return s.forward(r, entry{})
	}
	if resp.IsWord(r.args[1], "replicas") || resp.IsWord(r.args[1], "slaves") {
		return s.forward(r, entry{kind: kindCluster, op: &op{text: "replicas of"}})
	}
	for _, sub := range [...]string{"get-master-addr-by-name", "master", "masters", "sentinels"} {
		if resp.IsWord(r.args[1], sub) {
			return s.forward(r, entry{kind: kindCluster, op: &op{text: sub}})
		}
	}
	return s.forward(r, entry{})
}

// carryCluster carries the answer to a subcommand of CLUSTER or SENTINEL.
func (p *replyPump) carryCluster(subcommand string) error {
	w := cluster.RewritingOf(subcommand)
	line, h, err := p.peek()
	if err != nil {
		return err
	}
	n := int64(1)
	switch {
	case h.Kind == resp.Error:
		return p.copy(shapeNone, nil)
	case w.Hidden:
		if err := p.skip(); err != nil {
			return err
		}
		return p.emit(resp.AppendArray(nil, 0))
	case !w.Whole && h.Kind == resp.Array:
		if err := p.emitLine(line); err != nil {
			return err
		}
		n = max(h.N, 0)
	}
	for range n {
		if err := p.carryRenamed(w, p.renamer()); err != nil {
			return err
		}
	}
	return nil
}

func (p *replyPump) carryRenamed(w cluster.Rewriting, to cluster.Renamer) error {
	b, err := p.gather()
	if err != nil {
		return err
	}
	out, err := w.Append(nil, b, to)
	if err != nil {
		return fmt.Errorf("%w: %w", resp.ErrReply, err)
	}
	return p.emit(out)
}

// carrySentinelMessage carries what nobody asked for: Sentinels publish addresses.
func (p *replyPump) carrySentinelMessage() error {
	name, err := p.firstWord()
	if err != nil {
		return err
	}
	if name != "message" && name != "pmessage" {
		return p.copy(shapeNone, nil)
	}
	view := p.s.g.cfg.view
	look := func() { view.Look(p.s.ctx) }
	return p.carryRenamed(cluster.RewritingOfMessage(look), view.KnownRenamer(p.s.conn.LocalAddr()))
}

// gather takes the element at hand into memory.
func (p *replyPump) gather() ([]byte, error) {
	var b bytes.Buffer
	p.aside = &b
	err := p.copy(shapeNone, nil)
	p.aside = nil
	return b.Bytes(), err
}

// setAside is emit while an element is gathered.
func (p *replyPump) setAside(b []byte) error {
	if p.aside.Len()+len(b) > maxNodesBytes {
		return fmt.Errorf("%w: more than %d bytes about a cluster", resp.ErrReply, maxNodesBytes)
	}
	p.aside.Write(b)
	return nil
}

// asks is the state of ASKING, which the server keeps for the command that follows. Where
// the gateway sends several for one of the client, each has to bring it.
type asks struct {
	next   bool // the client has sent it: it holds for the next request
	on     bool // it holds for the request at hand
	sent   bool // the request at hand has sent something
	inside bool // in a transaction of ours, which keeps it
}

// begin begins a request.
func (a *asks) begin() { *a = asks{on: a.next} }

func (s *session) asking(r *request) error {
	s.asks.next = !s.tx.open
	return s.forward(r, entry{})
}

// askAgain repeats ASKING, hidden from the client, where the server has forgotten it.
func (s *session) askAgain() error {
	again := s.asks.on && s.asks.sent && !s.asks.inside && !s.tx.open
	s.asks.sent = true
	if !again {
		return nil
	}
	if err := s.push(entry{n: 1, flags: flagHidden}); err != nil {
		return err
	}
	return s.up.write(askingRequest)
}

var askingRequest = []byte("*1\r\n$6\r\nASKING\r\n")

// readOnly watches READONLY and READWRITE: a client may read from a replica, and so must the
// second connection.
func (s *session) readOnly(r *request) error {
	s.setReadOnly(resp.IsWord(r.args[0], "readonly"))
	return s.forward(r, entry{})
}

func (s *session) setReadOnly(on bool) {
	if s.reads != on {
		s.aux.close()
		s.aux = nil
	}
	s.reads = on
}
