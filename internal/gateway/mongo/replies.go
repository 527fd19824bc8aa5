package mongo

import (
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// reply is one message of the server's. Its bytes live until it has been handled.
type reply struct {
	message           // as it came
	body     []byte   // the same without compression
	msg      wire.Msg // of an OP_MSG
	document wire.Span
	doc      []byte // body's at document; empty: there is none
	noDoc    error  // why an OP_REPLY has no document
	more     bool   // others follow without a request
}

var errNoReply = fmt.Errorf("%w: no reply, but opcode", wire.ErrMalformed)

// parse reads a message, whose bytes without compression are body.
func (r *reply) parse(m message, body []byte) error {
	r.message, r.body, r.document, r.noDoc, r.more = m, body, wire.Span{}, nil, false
	switch m.header.OpCode {
	case wire.OpMsg:
		if err := r.msg.Parse(body); err != nil {
			return err
		}
		r.document, r.more = r.msg.Body, r.msg.Flags&wire.MoreToCome != 0
	case wire.OpReply:
		r.document, r.noDoc = wire.ParseReply(body)
	default:
		return fmt.Errorf("%w %d", errNoReply, m.header.OpCode)
	}
	r.doc = r.document.Of(body)
	return nil
}

// replaced returns the reply with another document, in a buffer of the pool's.
func (r *reply) replaced(doc []byte) []byte {
	hasChecksum := r.header.OpCode == wire.OpMsg && r.msg.Flags&wire.ChecksumPresent != 0
	return wire.Replace(gateway.GetBuffer(len(r.body)-r.document.Len+len(doc)), r.body, r.document, doc, hasChecksum)
}

// pumpReplies carries replies until the server ends or an error.
func (s *session) pumpReplies() error {
	defer s.fromServer.Free()
	for {
		m, err := s.fromServer.next()
		if err == nil {
			err = s.handleReply(m)
			s.reply.message, s.reply.body, s.reply.doc = message{}, nil, nil // its memory is given back to the budget before the next one is read
		}
		if err != nil {
			return err
		}
	}
}

// handleReply carries one message of the server to the client.
func (s *session) handleReply(m message) (err error) {
	if m.paired.Dictionary {
		return s.sides.fromServer.take(m.bytes, &m.paired)
	}
	began, r, body := time.Now(), &s.reply, m.bytes
	if m.came != plain {
		if body, err = s.open(&m, &s.sides.fromServer); err != nil {
			return err
		}
		defer gateway.PutBuffer(body)
	}
	if err := r.parse(m, body); err != nil {
		return err
	}
	e, ok := s.pending.take(m.header.ResponseTo, r.more, m.header.RequestID)
	var forming time.Time // only for a trace
	if e.trace != nil {
		forming = arrived(e.trace, &m, began, s.fromServer.Waited)
	}
	switch {
	case !ok: // no request waits for it
		e.client = plain
	case e.hello != nil:
		err := s.answerHello(e.hello)
		s.pending.carried()
		if e.trace != nil {
			ended(e.trace, r.doc, err)
		}
		return err
	case e.logsIn && loggedIn(r.doc):
		s.door.Pass()
	}
	lost := false
	if s.g.balancer != nil {
		var deliver bool
		if lost, deliver = s.g.balancer.checkReply(&s.follower, e.retried, r.doc); !deliver {
			if e.trace != nil {
				broken(e.trace, errNotPrimary)
			}
			return errNotPrimary
		}
	}

	// What it was like says what the next one will be.
	waited := time.Duration(0)
	if !e.sent.IsZero() {
		waited = began.Sub(e.sent) - s.fromServer.took
	}
	s.link.replied(len(r.bytes), s.fromServer.rest, s.fromServer.took, waited)
	if e.shape != 0 {
		s.forecasts.learn(e.shape, len(r.body), len(r.bytes), r.came)
	}
	switch {
	case e.rule == nil:
	case r.paired.Stored:
		s.stats.Left(e.rule.Name, "peer", len(r.body))
	case r.came != plain:
		s.stats.Sealed(e.rule.Name, codecOf(r.came), len(r.body), len(r.bytes), 0)
	case e.reason != "":
		s.stats.Left(e.rule.Name, e.reason, len(r.body))
	default:
		s.stats.Left(e.rule.Name, "server", len(r.body))
	}

	out, pooled := s.form(&e, r, began)
	defer gateway.PutBuffer(pooled)
	if e.trace != nil && pooled != nil {
		formed(e.trace, out, forming)
	}
	if s.topics.sample {
		s.topics.measure(e.topic, policy.Reply, r.body, s.sides.crossed(out, r.bytes), began)
	}
	if ok {
		s.stats.Latency(e.spent + time.Since(began))
	}
	err = s.toClient.send(out, r.held)
	s.pending.carried()
	if e.trace != nil {
		ended(e.trace, r.doc, err)
	}
	if err == nil && (lost || s.follower.stale.Load() && !s.pending.busy()) {
		err = errNotPrimary
	}
	return err
}

// form gives a reply the form of its request: compressed by what that came in, where the reply gets smaller, and plain otherwise.
// What came in that form already passes unchanged. pooled goes back to the pool afterwards.
func (s *session) form(e *exchange, r *reply, began time.Time) (out, pooled []byte) {
	switch {
	case e.client == wire.BetweenGateways:
		return s.frameReply(e, r, began)
	case e.client == plain || e.client == wire.Noop || len(r.body) < minCompressed:
		return r.body, nil
	case e.client == r.came:
		if len(r.bytes) < len(r.body) {
			return r.bytes, nil
		}
		return r.body, nil
	}
	id, level := s.lower(e.client, 0, len(r.body), 0)
	if id == plain {
		return r.body, nil
	}
	compressed := s.compress(r.body, r.header, id, level)
	if compressed == nil || len(compressed) >= len(r.body) {
		return r.body, compressed
	}
	return compressed, compressed
}

// frameReply returns a reply in a frame for the gateway that asked for one, or plain when the rules want that.
func (s *session) frameReply(e *exchange, r *reply, began time.Time) (out, pooled []byte) {
	if e.topic == nil {
		return r.body, nil
	}
	rule := s.policy.Load().Lookup(policy.MessageAddress{Space: e.topic.space, Command: e.topic.command, Direction: policy.Reply, Size: len(r.body)})
	if rule == nil {
		return r.body, nil
	}
	o := outgoing{message: r.body, header: r.header, rule: rule}
	if o.open = e.reads && r.header.OpCode == wire.OpMsg && saysOK(r.doc); o.open {
		s.reads = true
	}
	if s.reads { // what strangers are answered is no sample, and what they name gets no room
		o.kind = s.topics.trainedKind(e.topic, rule, policy.Reply, began)
	}
	now := time.Now()
	out, reason := s.sides.toClient.frame(&o)
	if reason == "" {
		s.stats.Sealed(rule.Name, codec.Zstd, len(r.body), o.sent, time.Since(now))
	} else {
		s.stats.Left(rule.Name, reason, len(r.body))
	}
	return out, out
}

// answerHello sends a client the reply to its hello. It is never compressed.
func (s *session) answerHello(h *handshake) error {
	if s.reply.noDoc == nil && s.reply.document.Len == 0 {
		return s.toClient.send(s.reply.body, s.reply.held)
	}
	out, err := s.helloForClient(h, &s.reply)
	if err != nil {
		return err
	}
	defer gateway.PutBuffer(out)
	return s.toClient.send(out, s.reply.held)
}

// saysOK reports whether the document of a reply says that the command succeeded.
func saysOK(doc []byte) bool {
	e, ok, err := wire.Find(doc, "ok")
	if !ok || err != nil {
		return false
	}
	n, isNumber := e.Value.AsFloat64OK()
	return isNumber && n == 1
}

// loggedIn reports whether the document of a reply says that a login has succeeded.
func loggedIn(doc []byte) bool {
	done := true // authenticate has one step
	_ = wire.Elements(doc, func(e wire.Element) bool {
		if string(e.Key) == "done" {
			done, _ = e.Value.BooleanOK()
		}
		return true
	})
	return done && saysOK(doc)
}
