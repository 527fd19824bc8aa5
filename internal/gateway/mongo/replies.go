package mongo

import (
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// reply is one message of the server. Its bytes are valid until it has been handled.
type reply struct {
	message             // as received from the server
	plain      []byte   // the same decompressed
	msg        wire.Msg // of an OP_MSG
	document   wire.Span
	doc        []byte // bytes of plain at document; empty: none
	docErr     error  // why an OP_REPLY has no document
	moreToCome bool   // more replies follow without a request
}

var errNoReply = fmt.Errorf("%w: expected a reply, got opcode", wire.ErrMalformed)

// release drops the reply's bytes, whose memory goes back to the budget before the next reply is read.
func (r *reply) release() { r.message, r.plain, r.doc = message{}, nil, nil }

// parse reads r.plain.
func (r *reply) parse() error {
	r.document, r.docErr, r.moreToCome = wire.Span{}, nil, false
	switch r.header.OpCode {
	case wire.OpMsg:
		if err := r.msg.Parse(r.plain); err != nil {
			return err
		}
		r.document, r.moreToCome = r.msg.Body, r.msg.Flags&wire.MoreToCome != 0
	case wire.OpReply:
		r.document, r.docErr = wire.ParseReply(r.plain)
	default:
		return fmt.Errorf("%w %d", errNoReply, r.header.OpCode)
	}
	r.doc = r.document.Of(r.plain)
	return nil
}

// withDocument returns the reply with another document, in a buffer of the pool.
func (r *reply) withDocument(doc []byte) []byte {
	hasChecksum := r.header.OpCode == wire.OpMsg && r.msg.Flags&wire.ChecksumPresent != 0
	return wire.Replace(memory.GetBuffer(len(r.plain)-r.document.Len+len(doc)), r.plain, r.document, doc, hasChecksum)
}

// pumpReplies carries replies until the server ends or an error occurs.
func (s *session) pumpReplies() error {
	defer s.fromServer.Free()
	for {
		m, err := s.fromServer.next()
		if err == nil {
			err = s.handleReply(m)
			s.reply.release()
		}
		if err != nil {
			return err
		}
	}
}

// handleReply carries one message from the server to the client.
func (s *session) handleReply(m message) (err error) {
	began, r := time.Now(), &s.reply
	r.message, r.plain = m, m.received
	if r.compressor != plain {
		if r.plain, err = s.decompress(&r.message); err != nil {
			return err
		}
		defer memory.PutBuffer(r.plain)
	}
	if err := r.parse(); err != nil {
		return err
	}
	x, ok := s.pending.take(r.header.ResponseTo, r.moreToCome, r.header.RequestID)
	var encodeBegan time.Time // only used for a trace
	if x.trace != nil {
		encodeBegan = traceReply(x.trace, &r.message, began)
	}
	switch {
	case !ok: // no request waits for this reply
		x.replyCompressor = plain
	case x.hello != nil:
		err := s.answerHello(x.hello)
		s.pending.replySent()
		if x.trace != nil {
			traceEnded(x.trace, r.doc, err)
		}
		return err
	case x.endsLogin && loginSucceeded(r.doc):
		s.authGate.Open()
	}
	notPrimary := false
	if s.g.balancer != nil {
		var deliver bool
		if notPrimary, deliver = s.g.balancer.checkReply(&s.memberSession, x.retryable, r.doc); !deliver {
			if x.trace != nil {
				traceFailed(x.trace, errNotPrimary)
			}
			return errNotPrimary
		}
	}

	// Measure the reply, to predict later ones.
	roundTrip := time.Duration(0) // 0 for a stream's next reply
	if !x.sent.IsZero() {
		roundTrip = began.Sub(x.sent) - r.restTime
	}
	if s.toServer.stream == nil { // not for a link, which shares its connection and decompresses
		s.link.observeReply(len(r.received), r.restBytes, r.restTime, roundTrip)
	}
	if x.shape != 0 {
		s.forecasts.observe(x.shape, len(r.plain), len(r.received), r.compressor)
	}
	switch {
	case x.rule == nil:
	case r.compressor != plain:
		s.stats.Sealed(x.rule.Name, codecOf(r.compressor), len(r.plain), len(r.received), 0)
	case x.reason != "":
		s.stats.Left(x.rule.Name, x.reason, len(r.plain))
	default:
		s.stats.Left(x.rule.Name, "server", len(r.plain))
	}

	out, pooled := s.encodeReply(&x, r)
	defer memory.PutBuffer(pooled)
	if x.trace != nil && pooled != nil {
		traceEncoded(x.trace, out, encodeBegan)
	}
	if s.nsCommands.sample {
		s.nsCommands.measure(x.nsCommand, policy.Reply, r.plain, began)
	}
	if ok {
		s.stats.Latency(x.spent + time.Since(began))
	}
	if x.uncovered {
		s.cursors.add(r.doc, nil)
	} else if len(x.others) > 0 {
		s.cursors.add(r.doc, x.others)
	}
	covered := false
	if nc := x.nsCommand; nc != nil && s.toClient.stream != nil && !s.effort.IsSteppedDown() {
		covered = x.lookup(s.policy.Load(), nc.namespace, nc.command, policy.Reply, len(r.plain)) != nil
	}
	err = s.toClient.write(out, r.account, covered)
	s.pending.replySent()
	if x.trace != nil {
		traceEnded(x.trace, r.doc, err)
	}
	if err == nil && (notPrimary || s.memberSession.stale.Load() && !s.pending.busy()) {
		err = errNotPrimary
	}
	return err
}

// encodeReply returns the reply compressed like its request if that makes it smaller, and plain otherwise. A reply
// that already has this form is not changed. The caller gives pooled back to the pool.
func (s *session) encodeReply(x *exchange, r *reply) (out, pooled []byte) {
	switch {
	case x.replyCompressor == plain || x.replyCompressor == wire.Noop || len(r.plain) < minCompressed:
		return r.plain, nil
	case x.replyCompressor == r.compressor:
		if len(r.received) < len(r.plain) {
			return r.received, nil
		}
		return r.plain, nil
	}
	id, level := s.limitEffort(x.replyCompressor, 0, len(r.plain), 0)
	if id == plain {
		return r.plain, nil
	}
	compressed := s.compress(r.plain, r.header, id, level)
	if compressed == nil || len(compressed) >= len(r.plain) {
		return r.plain, compressed
	}
	return compressed, compressed
}

// answerHello sends a client the reply to its hello, which is never compressed.
func (s *session) answerHello(h *handshake) error {
	if s.reply.docErr == nil && s.reply.document.Len == 0 {
		return s.toClient.send(s.reply.plain, s.reply.account)
	}
	out, err := s.helloForClient(h, &s.reply)
	if err != nil {
		return err
	}
	defer memory.PutBuffer(out)
	return s.toClient.send(out, s.reply.account)
}

// isOK reports whether the document of a reply says that the command succeeded.
func isOK(doc []byte) bool {
	e, ok, err := wire.Find(doc, "ok")
	if !ok || err != nil {
		return false
	}
	n, isNumber := e.Value.AsFloat64OK()
	return isNumber && n == 1
}

// loginSucceeded reports whether the document of a reply says that a login has succeeded.
func loginSucceeded(doc []byte) bool { return loginEnded(doc) && isOK(doc) }

// loginEnded reports whether the reply to a step of a login says that no other step follows. Within a hello,
// servers leave out steps that fail.
func loginEnded(doc []byte) bool {
	done := true // authenticate has one step
	err := wire.Elements(doc, func(e wire.Element) bool {
		if string(e.Key) == "done" {
			done, _ = e.Value.BooleanOK()
		}
		return true
	})
	return done && err == nil
}
