package redis

import (
	"bytes"
	"fmt"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// How a session to a node of a cluster treats what names other nodes; see
// cluster_replies.go for what that is.

// maxNodesBytes bounds what is held of a reply that is rewritten: all of CLUSTER NODES, or
// one element of the others.
const maxNodesBytes = 16 << 20

// clusterCommand rewrites the addresses in what CLUSTER answers.
func (s *session) clusterCommand(r *request) error {
	if s.g.cfg.cluster == nil {
		return s.forward(r, entry{})
	}
	for _, sub := range [...]string{"slots", "shards", "nodes", "replicas", "slaves"} {
		if resp.IsWord(r.args[1], sub) {
			return s.forward(r, entry{kind: kindCluster, op: &op{text: sub}})
		}
	}
	return s.forward(r, entry{})
}

// renamer gives the addresses of nodes as the client must see them. A node of a cluster without a
// gateway has the entry's: who goes there is told so (emitErrorLine).
func (p *replyPump) renamer() renamer {
	g, local := p.s.g, p.s.conn.LocalAddr()
	return func(host, port string) (string, string, bool) {
		a, ok := g.cfg.peers.find(g.cfg.member, host, port)
		switch {
		case ok:
		case g.cfg.sentinel:
			return "", "", false // a server that is none of ours
		default:
			a = g.cfg.peers.advertisedAt(0)
		}
		if a.Host == "" && host == "" { // the host that the client has dialled
			return "", a.Port, true
		}
		return a.HostFor(local), a.Port, true
	}
}

// emitErrorLine sends the error at hand. In a cluster it may send the client elsewhere, but not past
// the gateways, where it would read envelopes.
func (p *replyPump) emitErrorLine(line []byte) error {
	g := p.s.g
	_, host, port, _, ok := splitRedirection(line)
	if !ok || g.cfg.peers == nil || p.mute {
		return p.emitLine(line)
	}
	out := appendRedirection(nil, line, p.renamer())
	if _, known := g.cfg.peers.find(g.cfg.member, string(host), string(port)); !known && !g.cfg.sentinel {
		text := noGateway
		if bytes.HasPrefix(line, redirectHead) {
			text = noPrimary
		}
		out = resp.AppendError(nil, fmt.Sprintf(text, addressKey(string(host), string(port))))
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
	if s.g.cfg.peers != nil {
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

// carryCluster carries an answer of CLUSTER.
func (p *replyPump) carryCluster(sub string) error {
	to := p.renamer()
	rename := func(t *tree) { t.renameText(to) }
	switch sub {
	case "slots":
		rename = func(t *tree) { t.renameSlots(to) }
	case "shards":
		rename = func(t *tree) { t.renameShards(to) }
	case "get-master-addr-by-name":
		return p.carryPrimary(to)
	case "sentinels":
		return p.carrySentinels()
	case "masters", "replicas of":
		rename = func(t *tree) { t.renameServer(to) }
	case "master":
		return p.carryWhole(func(t *tree) { t.renameServer(to) })
	}
	line, h, err := p.peek()
	if err != nil {
		return err
	}
	n := int64(1)
	switch {
	case h.Kind == resp.Error:
		return p.copy(shapeNone, nil)
	case h.Kind == resp.Array:
		if err := p.emitLine(line); err != nil {
			return err
		}
		n = max(h.N, 0)
	}
	for range n {
		if err := p.carryRenamed(rename); err != nil {
			return err
		}
	}
	return nil
}

// carryWhole is carryRenamed, but that errors pass.
func (p *replyPump) carryWhole(rename func(*tree)) error {
	_, h, err := p.peek()
	if err != nil {
		return err
	}
	if h.Kind == resp.Error {
		return p.copy(shapeNone, nil)
	}
	return p.carryRenamed(rename)
}

func (p *replyPump) carryRenamed(rename func(*tree)) error {
	b, err := p.gather()
	if err != nil {
		return err
	}
	out, err := rewriteElement(nil, b, rename)
	if err != nil {
		return fmt.Errorf("%w: %w", resp.ErrReply, err)
	}
	return p.emit(out)
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

// elsewhere reports an answer that sends the client to another node, or has it wait: what
// was asked has not been looked at.
func elsewhere(text string) bool {
	for _, prefix := range [...]string{"MOVED ", "ASK ", "REDIRECT ", "TRYAGAIN", "CLUSTERDOWN"} {
		if len(text) >= len(prefix) && text[:len(prefix)] == prefix {
			return true
		}
	}
	return false
}
