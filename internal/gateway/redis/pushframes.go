package redis

import (
	"bytes"
	"strings"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// Some frames answer no request: pushes, messages to subscribers in RESP2, MONITOR's lines. Requests about
// subscriptions are answered with one acknowledgement a channel, which RESP3 sends as pushes and which CLIENT
// REPLY OFF does not silence.

// pushFrames handles frames that answer no request, and acknowledgements of subscriptions.
type pushFrames struct {
	frames *frames
	copier *copier
	nodes  *nodeReplies
	queue  *queue
	state  *sessionState

	subs, patterns, shards int64 // numbers of subscribed channels, patterns and shard channels
	monitoring             bool
	expected               bool // monitoring or subscribed: frames that answer no request may come
}

// reset forgets all subscriptions, as RESET ends them.
func (m *pushFrames) reset() {
	m.monitoring, m.expected = false, false
	m.subs, m.patterns, m.shards = 0, 0, 0
	m.state.subscriptions.Store(0)
}

// passUnsolicited copies a frame that answers no request; it is never muted.
func (m *pushFrames) passUnsolicited() error {
	m.frames.mute = false
	if ofSentinels(m.nodes.redirects.view) {
		return m.nodes.message()
	}
	if inCluster(m.nodes.redirects.view) {
		ack, err := m.isAck()
		switch {
		case err != nil:
			return err
		case ack: // the server ended the subscription: the channel's slot moved to another node
			return m.copyAck()
		}
	}
	return m.copier.copy(shapeNone, nil)
}

// isUnsolicited reports whether the next frame answers no request. kind is its first byte.
func (m *pushFrames) isUnsolicited(kind byte) (bool, error) {
	switch {
	case kind == resp.Push:
		ack, err := m.isAck()
		return !ack || !m.queue.expectsAck(), err
	case kind == resp.Simple && m.monitoring:
		line, _, err := m.frames.peek()
		return err == nil && isMonitorLine(line), err
	case kind == resp.Array && m.state.version.Load() == 2:
		name, err := m.frames.firstWord()
		moved := name == "sunsubscribe" && !m.queue.expectsAck()
		return moved || name == "message" || name == "pmessage" || name == "smessage", err
	}
	return false, nil
}

// isAck reports whether the current frame acknowledges a subscription or its end.
func (m *pushFrames) isAck() (bool, error) {
	name, err := m.frames.firstWord()
	return strings.HasSuffix(name, "subscribe") && len(name) <= len("punsubscribe"), err
}

// subscriptions returns how many acknowledgements follow when the client unsubscribes from everything of a
// class (see entryData): at least one.
func (m *pushFrames) subscriptions(class byte) int {
	n := m.subs
	switch class {
	case 'p':
		n = m.patterns
	case 's':
		n = m.shards
	}
	return int(max(n, 1))
}

// carrySubscribe carries n acknowledgements, or one error, and the messages in between.
func (m *pushFrames) carrySubscribe(n int) error {
	muted := m.frames.mute
	for n > 0 {
		b, err := m.frames.in.Peek(1)
		if err != nil {
			return err
		}
		ack := false
		if b[0] == resp.Push || b[0] == resp.Array {
			if ack, err = m.isAck(); err != nil {
				return err
			}
		}
		switch {
		case ack:
			m.frames.mute = false // the server sends acks despite CLIENT REPLY OFF
			err = m.copyAck()
			n--
		case b[0] == resp.Push || b[0] == resp.Array:
			err = m.passUnsolicited()
		default:
			m.frames.mute = muted
			return m.copier.copy(shapeNone, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyAck carries an acknowledgement and updates the counts. Its third element counts channels and patterns
// together, or shard channels.
func (m *pushFrames) copyAck() error {
	name, err := m.frames.firstWord()
	if err != nil {
		return err
	}
	var total int64
	for range 3 {
		if total, err = m.copyPart(); err != nil {
			return err
		}
	}
	m.updateCounts(name, total)
	return nil
}

// copyPart carries one element (the first one with the array's header) and returns its number, if it is one.
func (m *pushFrames) copyPart() (n int64, err error) {
	line, h, err := m.frames.peek()
	if err != nil {
		return 0, err
	}
	if h.Kind == resp.Integer {
		n, _ = resp.ParseInt(line[1 : len(line)-2])
	}
	if err := m.frames.emitLine(line); err != nil {
		return 0, err
	}
	switch {
	case h.IsAggregate():
		return m.copyPart()
	case h.IsString() && h.N >= 0:
		return 0, m.frames.in.CopyTo(h.N+2, m.frames.emit)
	}
	return n, nil
}

func (m *pushFrames) updateCounts(name string, total int64) {
	switch name {
	case "subscribe", "unsubscribe":
		m.subs = total - m.patterns
	case "psubscribe", "punsubscribe":
		m.patterns = total - m.subs
	default:
		m.shards = total
	}
	channels := m.subs + m.patterns + m.shards
	m.expected = m.monitoring || channels > 0
	m.state.subscriptions.Store(channels)
}

// isMonitorLine matches `+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`.
func isMonitorLine(line []byte) bool {
	at := bytes.IndexByte(line, ' ')
	if at < 3 || at+1 >= len(line) || line[at+1] != '[' {
		return false
	}
	return strings.Trim(string(line[1:at]), "0123456789.") == ""
}

// feedCommands handles commands after which the server sends frames that answer no request: subscriptions, MONITOR
// and replication.
type feedCommands struct {
	upstream *upstreamWriter
	relay    relayer
}

// relayer relays the rest of the client's bytes to the server.
type relayer interface{ relayRest() error }

func (c *feedCommands) subscribe(r *request) error {
	c.upstream.subscribing = !c.upstream.tx.open
	c.upstream.tx.changesState = c.upstream.tx.open
	return c.upstream.forward(r, entry{kind: kindSubscribe, data: &entryData{acks: len(r.args) - 1}})
}

func (c *feedCommands) unsubscribe(r *request) error {
	if len(r.args) > 1 {
		return c.upstream.forward(r, entry{kind: kindSubscribe, data: &entryData{acks: len(r.args) - 1}})
	}
	return c.upstream.forward(r, entry{kind: kindUnsubscribe, data: &entryData{class: r.args[0][0] | 0x20}})
}

// monitor forwards MONITOR. After its answer the server sends lines that answer no request, and it does not
// answer another MONITOR.
func (c *feedCommands) monitor(r *request) error {
	if c.upstream.monitoring && !c.upstream.tx.open {
		return nil
	}
	o := &entryData{}
	o.after = func(a answer) {
		if !a.isError() {
			c.upstream.pump.monitor()
		}
		o.answer.head = a.head
	}
	err := c.upstream.forwardAndWait(r, o)
	c.upstream.monitoring = c.upstream.monitoring || err == nil && o.done != nil && !o.answer.isError()
	return err
}

// replconf forwards REPLCONF, except the forms that the server does not answer.
func (c *feedCommands) replconf(r *request) error {
	for i := 1; i < len(r.args) && len(r.args)%2 == 1; i += 2 {
		switch {
		case !resp.IsWord(r.args[i], "ack") && !resp.IsWord(r.args[i], "getack"):
		case i > 1 || c.upstream.tx.open:
			return c.upstream.refuse("ERR cinch: REPLCONF ACK and GETACK have no reply, so send them alone and outside MULTI")
		default:
			return nil
		}
	}
	return c.upstream.forward(r, entry{})
}

// replicate relays the connection unchanged from here on, unless the server refuses: a replica must see the stored
// bytes.
func (c *feedCommands) replicate(r *request) error {
	switch {
	case c.upstream.tx.open:
		return c.upstream.forward(r, entry{}) // refused
	case c.upstream.monitoring:
		return nil // the server does not answer either
	}
	o := &entryData{done: make(chan struct{})}
	if err := c.upstream.forward(r, entry{kind: kindRaw, data: o}); err != nil {
		return err
	}
	if err := c.upstream.await(o); err != nil || o.answer.isError() {
		return err
	}
	return c.relay.relayRest()
}
