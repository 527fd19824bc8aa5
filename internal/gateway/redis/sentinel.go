package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// SentinelConfig makes a Cluster of the servers that Sentinels watch: LISTEN leads to the
// primary, whichever that is, the ports behind it to each server. Clients of the primary are
// disconnected when another takes over; those that ask Sentinels ask at a listener that
// answers with the gateways' addresses.
type SentinelConfig struct {
	Sentinels      []gateway.Upstream // their credentials are not used
	User, Password string             // of the Sentinels, for the gateway's own questions
	Master         string             // as the Sentinels call the primary
	Listener       net.Listener       // where clients ask; nil: nowhere. It is served by Serve
}

// lookBySentinel asks the Sentinels, in order, until one has answered.
func (c *Cluster) lookBySentinel() error {
	var errs []error
	for _, up := range c.cfg.Sentinel.Sentinels {
		nodes, err := c.askSentinel(seedDial(up))
		if err == nil {
			return c.update(nodes, up.Host)
		}
		errs = append(errs, fmt.Errorf("sentinel %s: %w", up.Address, err))
		if c.ctx.Err() != nil {
			return nil
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) askSentinel(dial func(context.Context) (net.Conn, error)) ([]clusterNode, error) {
	ctx, cancel := context.WithTimeout(c.ctx, lookTimeout)
	defer cancel()
	s := c.cfg.Sentinel
	client := goredis.NewSentinelClient(askOptions(dial, s.User, s.Password))
	defer client.Close()
	master, err := client.Master(ctx, s.Master).Result()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Master, err)
	}
	replicas, err := client.Replicas(ctx, s.Master).Result()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Master, err)
	}
	primary := serverNode(master)
	primary.primary = true
	if err := c.checkRole(ctx, primary); err != nil {
		return nil, err
	}
	nodes := []clusterNode{primary}
	for _, r := range replicas {
		if n := serverNode(r); n.id != primary.id {
			nodes = append(nodes, n)
		}
	}
	return nodes, nil
}

// serverNode is what a Sentinel says of a server. It has no other name than its address.
func serverNode(fields map[string]string) clusterNode {
	n := clusterNode{ip: fields["ip"], port: fields["port"]}
	n.id = addressKey(n.ip, n.port)
	flags := fields["flags"]
	n.failed = strings.Contains(flags, "_down") || strings.Contains(flags, "disconnected")
	return n
}

var errNotPrimary = errors.New("what the Sentinels call the primary is none (yet)")

// checkRole asks a server that is about to take over for its role: Sentinels may speak of an
// older time. Where it can't be asked, clients will find out.
func (c *Cluster) checkRole(ctx context.Context, n clusterNode) error {
	for _, m := range c.table.Load().all {
		if m.id == n.id && m.node.Load().primary {
			return nil
		}
	}
	m := &member{}
	m.node.Store(&n)
	client := goredis.NewClient(askOptions(c.dial(m, nil), c.cfg.Upstream.User, c.cfg.Upstream.Password))
	defer client.Close()
	role, err := client.Do(ctx, "ROLE").Slice()
	if err == nil && len(role) > 0 && role[0] != "master" {
		return fmt.Errorf("%w: %s", errNotPrimary, n.id)
	}
	return nil
}

// hearSentinels has a look made as soon as a Sentinel tells of another primary.
func (c *Cluster) hearSentinels() {
	for i := 0; c.ctx.Err() == nil; i++ {
		s := c.cfg.Sentinel
		up := s.Sentinels[i%len(s.Sentinels)]
		client := goredis.NewClient(askOptions(seedDial(up), s.User, s.Password))
		c.hear(client.Subscribe(c.ctx, "+switch-master"))
		_ = client.Close()
		select {
		case <-c.ctx.Done():
		case <-time.After(lookPeriod):
		}
	}
}

func (c *Cluster) hear(sub *goredis.PubSub) {
	defer sub.Close()
	for {
		if _, err := sub.ReceiveMessage(c.ctx); err != nil {
			return
		}
		select {
		case c.round.wanted <- struct{}{}:
		default:
		}
	}
}

// placeOf is where clients find a member: the primary that Sentinels watch at the entry.
func (c *Cluster) placeOf(m *member) gateway.Advertised {
	if c.cfg.Sentinel != nil && m.node.Load().primary {
		return c.advertisedAt(0)
	}
	return m.advertised
}

// newAsked is the gateway for clients that ask Sentinels.
func (c *Cluster) newAsked() *Gateway {
	cfg := c.cfg.Config
	cfg.Name += " (sentinel)"
	cfg.Policy, cfg.Dicts, cfg.Sampler = nil, nil, nil
	cfg.Dial, cfg.cluster, cfg.peers, cfg.sentinel = c.dialSentinel, c, c, true
	return NewGateway(cfg)
}

func (c *Cluster) serveSentinel() {
	if c.asked == nil {
		return
	}
	c.serves.Go(func() {
		if err := c.asked.Serve(c.cfg.Sentinel.Listener); err != nil {
			c.log.Error("the listener for clients of Sentinels has ended", "err", err)
		}
	})
}

// DialPrimary connects to the primary that the Sentinels name; not for a client.
func (c *Cluster) DialPrimary(ctx context.Context) (net.Conn, error) {
	for _, m := range c.pick() {
		return c.dial(m, nil)(ctx)
	}
	return nil, fmt.Errorf("%w: %s has no primary that is known", gateway.ErrUnreachable, c.cfg.Sentinel.Master)
}

// dialSentinel connects to the first Sentinel that can be reached.
func (c *Cluster) dialSentinel(ctx context.Context) (conn net.Conn, err error) {
	for _, up := range c.cfg.Sentinel.Sentinels {
		if conn, err = up.Dial(ctx); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// sentinelCommand rewrites the addresses in what a Sentinel answers.
func (s *session) sentinelCommand(r *request) error {
	if !s.g.cfg.sentinel {
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

// carrySentinels leaves out the other Sentinels: they know nothing of the gateways.
func (p *replyPump) carrySentinels() error {
	_, h, err := p.peek()
	if err != nil {
		return err
	}
	if h.Kind == resp.Error {
		return p.copy(shapeNone, nil)
	}
	if err := p.skip(); err != nil {
		return err
	}
	return p.emit(resp.AppendArray(nil, 0))
}

// carryPrimary carries [host port], or null.
func (p *replyPump) carryPrimary(to renamer) error {
	return p.carryWhole(func(t *tree) {
		if len(t.kids) != 2 {
			return
		}
		if host, port, ok := to(t.kids[0].text(), t.kids[1].text()); ok {
			t.kids[0].set(host)
			t.kids[1].set(port)
		}
	})
}

// renameServer rewrites what a Sentinel says of a server.
func (t *tree) renameServer(to renamer) {
	if host, port, ok := to(t.fieldText("ip"), t.fieldText("port")); ok {
		if name := t.fieldText("name"); name == net.JoinHostPort(t.fieldText("ip"), t.fieldText("port")) {
			t.setField("name", net.JoinHostPort(host, port))
		}
		t.setField("ip", host)
		t.setField("port", port)
	}
	if t.field("master-host") == nil {
		return
	}
	if host, port, ok := to(t.fieldText("master-host"), t.fieldText("master-port")); ok {
		t.setField("master-host", host)
		t.setField("master-port", port)
	}
}

// carrySentinelMessage carries what nobody asked for: Sentinels publish addresses.
//
//	+switch-master  mymaster 10.0.0.1 6379 10.0.0.2 6379
//	+slave          slave 10.0.0.2:6379 10.0.0.2 6379 @ mymaster 10.0.0.1 6379
func (p *replyPump) carrySentinelMessage() error {
	name, err := p.firstWord()
	if err != nil || name != "message" && name != "pmessage" {
		return errors.Join(err, p.copyIf(err == nil))
	}
	c, local := p.s.g.cfg.cluster, p.s.conn.LocalAddr()
	known := func(host, port string) (string, string, bool) { // Sentinels speak of much else
		m := c.table.Load().find(nil, host, port)
		if m == nil {
			return "", "", false
		}
		a := c.placeOf(m)
		return a.HostFor(local), a.Port, true
	}
	return p.carryWhole(func(t *tree) {
		n := len(t.kids)
		if n < 3 {
			return
		}
		if t.kids[n-2].text() == "+switch-master" { // whoever hears of it connects at once
			ctx, cancel := context.WithTimeout(p.s.ctx, unknownWait)
			defer cancel()
			c.round.await(ctx, nil)
		}
		t.kids[n-1].set(renameWords(t.kids[n-1].text(), known))
	})
}

func (p *replyPump) copyIf(ok bool) error {
	if !ok {
		return nil
	}
	return p.copy(shapeNone, nil)
}

// renameWords rewrites the addresses among the words of a message.
func renameWords(text string, to renamer) string {
	words := strings.Split(text, " ")
	for i := range words {
		if at := strings.LastIndexByte(words[i], ':'); at > 0 && isPort(words[i][at+1:]) {
			if host, port, ok := to(words[i][:at], words[i][at+1:]); ok {
				words[i] = host + ":" + port
			}
		}
		if i+1 < len(words) && isPort(words[i+1]) {
			if host, port, ok := to(words[i], words[i+1]); ok {
				words[i], words[i+1] = host, port
			}
		}
	}
	return strings.Join(words, " ")
}

func isPort(s string) bool { return s != "" && len(s) <= 5 && strings.Trim(s, "0123456789") == "" }

// entrySessions are those of clients that have connected to the entry.
type entrySessions struct {
	mu  sync.Mutex
	all map[*entrySession]struct{}
}

type entrySession struct {
	*session
	member *member
	of     *entrySessions
}

func (e *entrySessions) add(m *member, s *session) *entrySession {
	x := &entrySession{session: s, member: m, of: e}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[*entrySession]struct{}{}
	}
	e.all[x] = struct{}{}
	return x
}

// Run is that of the session.
func (x *entrySession) Run() {
	defer func() {
		x.of.mu.Lock()
		defer x.of.mu.Unlock()
		delete(x.of.all, x)
	}()
	x.session.Run()
}

// cut ends the sessions whose members are so.
func (e *entrySessions) cut(is func(*member) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for x := range e.all {
		if is(x.member) {
			_ = x.Close() // the clients connect again, to the primary
		}
	}
}
