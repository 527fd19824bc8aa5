package tarantool

import (
	"context"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// reply is the reply of the server that is handled. The session reuses it for the next.
type reply struct {
	bytes  []byte // the frame without its length
	header wire.Header
	body   wire.Body
	kind   wire.Type // type of the request
}

// pumpReplies carries the greeting and then replies, until the server ends or an error occurs.
func (s *session) pumpReplies() error {
	defer s.fromServer.Free()
	defer func() { _ = s.toClient.flush() }()
	greeting, err := s.fromServer.raw(wire.GreetingLen)
	if err == nil {
		s.g.catalog.recordGreeting()
		version := schema.ParseVersion(string(greeting))
		s.serverVersion.Store(&version)
		if s.g.cfg.Greeted != nil {
			s.g.cfg.Greeted(string(greeting))
		}
		err = s.toClient.send(greeting)
	}
	for err == nil {
		var f frame
		if f, err = s.fromServer.next(); err == nil {
			err = s.handleReply(&f)
		}
	}
	return err
}

// handleReply carries one frame from the server to the client.
func (s *session) handleReply(f *frame) error {
	if s.isReplication.Load() {
		return relay(&s.fromServer, f.bytes, &s.toClient, s.Client, s.Upstream)
	}
	began, r := time.Now(), &s.reply
	r.bytes = f.body()
	if err := r.header.Parse(r.bytes); err != nil {
		return err
	}
	if r.header.Schema != s.schemaVersion {
		s.schemaVersion = r.header.Schema
		s.g.catalog.recordVersion(s.schemaVersion)
	}
	switch r.header.Type {
	case wire.Event:
		if s.shutdownWatch.isStale(r) {
			return nil
		}
		return s.answer(f, &exchange{kind: wire.Event})
	case wire.Chunk:
		return s.answer(f, &exchange{kind: s.outstanding.kindOf(r.header.Sync)})
	}

	// Find the request that it answers. If the server refused the request for its schema version, send it again.
	moved := r.header.Type == wire.ErrorFlag|wire.ErrSchemaVersion
	if moved && s.parkRefused(r.header.Sync, began) {
		return nil
	}
	e, ok := s.outstanding.take(r.header.Sync)
	moved = moved && e.isRetried()
	traceReply(e.trace, moved, began, s.fromServer.Waited)
	switch {
	case e.stepped != nil:
		return s.answerStep(f, e.stepped, moved)
	case e.probe:
		s.outstanding.accept(e.stream, e.sent)
		return nil
	}
	s.identity.recordReply(e.kind, r.header.Sync, r.header.Type)
	defer s.outstanding.retryBuffer.drop(&e)
	if e.partError != "" {
		return s.answerError(&refusal{wire.ErrSystem, "", e.partError}, e.trace)
	}
	err := s.answer(f, &e)
	if ok {
		s.g.cfg.Stats.Latency(e.spent + time.Since(began))
	}
	return err
}

// answer sends the current reply, to the request of e, with its envelopes decompressed. A part of a reply
// (box.session.push) that can't be decompressed is not sent; the reply itself is then replaced by an error.
func (s *session) answer(f *frame, e *exchange) error {
	defer s.releaseDecoded()
	c := e.trace
	began := c.Now()
	out, refused := s.decodeReply(&s.reply, e)
	sent := f.bytes
	switch {
	case refused != nil && s.reply.header.Type == wire.Chunk:
		s.outstanding.recordPartError(s.reply.header.Sync, refused.text)
		return nil
	case refused != nil:
		return s.answerError(refused, c)
	case out != nil:
		defer memory.PutBuffer(out)
		traceSince(c, "codec reply", began)
		sent = out
	}
	err := s.toClient.write(sent)
	traceEnded(c, s.reply.header.Type, err)
	return err
}

// answerError sends an error in place of the current reply.
func (s *session) answerError(refused *refusal, c *trace.Command) error {
	traceRefused(c, refused)
	return s.toClient.write(wire.AppendError(nil, s.reply.header.Sync, s.schemaVersion, refused.code, refused.text))
}

// recordSchemaChange records that the server refused a request for a stamp that the gateway set.
func (s *session) recordSchemaChange(stamp uint64) {
	s.g.catalog.markRefused(stamp)
	s.g.cfg.Stats.Error("schema_changed")
}

// decodeReply returns a reply with its envelopes decompressed, in a pooled buffer; nil if nothing changes. The
// memory that it takes from the budget is held until releaseDecoded. From replies to wire.ID it removes features that
// the gateway does not support.
func (s *session) decodeReply(r *reply, e *exchange) ([]byte, *refusal) {
	r.kind = e.kind
	at := r.header.Map.End()
	if r.kind != wire.ID && !hasMagic(r.bytes[at:]) {
		return nil, nil
	}
	if err := r.body.Parse(r.bytes, at); err != nil {
		s.g.cfg.Stats.Error("upstream_malformed")
		return nil, &refusal{wire.ErrSystem, "malformed", "cinch: the server's reply is malformed: " + err.Error()}
	}
	if r.kind == wire.ID {
		return withoutFeatures(r.bytes, &r.body), nil
	}
	original, sent := r.echoed(e)
	size, err := len(r.bytes)-sent.Len+len(original), error(nil)
	if original == nil {
		size, err = s.decodedSize(r)
	}
	if err != nil {
		return nil, s.decodeError(err)
	}
	if size == 0 {
		return nil, nil
	}
	if err := s.reserveDecoded(size); err != nil {
		s.g.cfg.Stats.Error("budget")
		return nil, &refusal{wire.ErrNoMemory, "budget", fmt.Sprintf("cinch: a reply of %d bytes does not fit into the memory budget (memory.budget)", size)}
	}
	if original != nil {
		return s.replaceTuple(r, sent, original, size), nil
	}
	out, err := s.decodeEnvelopes(r, size)
	if err != nil {
		return nil, s.decodeError(err)
	}
	return out, nil
}

// echoed returns the tuple of an INSERT or REPLACE as the client sent it, if the reply holds this tuple as the gateway
// sent it, at the position sent. So nothing has to be decompressed. original is nil for other replies, since a trigger
// may have stored another tuple, and if the client's request was dropped because the server had accepted it.
func (r *reply) echoed(e *exchange) (original []byte, sent wire.Span) {
	if e.tupleHash == 0 || e.original == nil || r.body.Data.Len == 0 {
		return nil, sent
	}
	list, err := wire.ReadHead(r.bytes, r.body.Data.At)
	if err != nil || list.Kind != wire.Array || list.Count != 1 {
		return nil, sent
	}
	sent = wire.Span{At: list.Content.At, Len: r.body.Data.End() - list.Content.At}
	if maphash.Bytes(hashSeed, sent.Of(r.bytes)) != e.tupleHash {
		return nil, sent
	}
	request := e.original[e.prefix:]
	var h wire.Header
	var b wire.Body
	if h.Parse(request) != nil || b.Parse(request, h.Map.End()) != nil {
		return nil, sent // can't happen: it was parsed before
	}
	return b.Tuple.Of(request), sent
}

// replaceTuple returns the frame with original in place of the tuple sent. It counts values as decompressed, although
// that took no time, because the server has sent their envelopes.
func (s *session) replaceTuple(r *reply, sent wire.Span, original []byte, size int) []byte {
	strings := r.strings()
	for strings.Next() {
		stored := strings.Content.Of(r.bytes)
		if h, ok, err := r.envelope(stored); ok && err == nil {
			s.g.cfg.Stats.Opened(h.Codec, len(stored), h.RawLen, 0)
		}
	}
	out := append(wire.BeginFrame(memory.GetBuffer(size+maxHead)), r.bytes[:sent.At]...)
	return wire.FinishFrame(append(append(out, original...), r.bytes[sent.End():]...), 0)
}

// decodedSize returns an upper bound of the size in bytes of a reply with its envelopes decompressed; 0 if it has no
// envelopes. It returns no list of the envelopes, since that could take more memory than the reply; decodeEnvelopes
// searches for them again.
func (s *session) decodedSize(r *reply) (size int, err error) {
	found := false
	size = len(r.bytes)
	strings := r.strings()
	for strings.Next() {
		content := strings.Content.Of(r.bytes)
		h, ok, err := r.envelope(content)
		if !ok {
			continue
		}
		found = true
		if err == nil && h.RawLen > s.g.codec.Sealer.MaxOpen() {
			err = fmt.Errorf("%w: %d bytes, the limit is %d (max_open)", envelope.ErrTooLarge, h.RawLen, s.g.codec.Sealer.MaxOpen())
		}
		if err != nil {
			return 0, err
		}
		size += h.RawLen - len(content) + maxHead
		if size > maxFrame {
			return 0, fmt.Errorf("%w: the reply would have over %d bytes", envelope.ErrTooLarge, maxFrame)
		}
	}
	if !found {
		return 0, strings.Err()
	}
	return size, strings.Err()
}

// decodeEnvelopes returns the frame with the values in place of their envelopes.
func (s *session) decodeEnvelopes(r *reply, size int) ([]byte, error) {
	out := wire.BeginFrame(memory.GetBuffer(size + maxHead))
	last := 0
	strings := r.strings()
	for strings.Next() {
		stored := strings.Content.Of(r.bytes)
		h, ok, _ := r.envelope(stored)
		if !ok {
			continue
		}
		out = append(out, r.bytes[last:strings.At]...)
		out = wire.AppendHead(out, strings.Kind, h.RawLen)
		opened, err := s.g.codec.decode(out, stored, &h)
		if err != nil {
			memory.PutBuffer(out)
			return nil, err
		}
		out = opened
		last = strings.Content.End()
	}
	return wire.FinishFrame(append(out, r.bytes[last:]...), 0), nil
}

// reserveDecoded takes memory for a decompressed reply of more than gateway.FreeBytes from the budget. It waits for
// reservePatience at most.
func (s *session) reserveDecoded(size int) error {
	if size <= gateway.FreeBytes || s.Replies == nil {
		return nil
	}
	if !s.Replies.TryAcquire(int64(size)) {
		if err := s.toClient.flush(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(s.Context(), reservePatience*s.g.cfg.Stall)
		defer cancel()
		if err := s.Replies.Acquire(ctx, int64(size)); err != nil {
			return err
		}
	}
	s.decodedBytes = int64(size)
	return nil
}

// reservePatience is the number of Stall periods for which a reply waits for memory.
const reservePatience = 5

// releaseDecoded gives back the memory that reserveDecoded took. It is called after the reply was passed to the sink.
func (s *session) releaseDecoded() {
	s.Replies.Release(s.decodedBytes)
	s.decodedBytes = 0
}

// decodeError returns the error for the client when a value can't be decompressed.
func (s *session) decodeError(cause error) *refusal {
	return s.g.codec.decodeError(cause, s.Client.RemoteAddr().String())
}

// strings iterates over all strings in the reply's body.
func (r *reply) strings() wire.Strings {
	return wire.NewStrings(r.bytes, wire.Span{At: r.body.At, Len: r.body.End - r.body.At})
}

// envelope parses the header of a string that is an envelope. ok is false for other strings.
func (r *reply) envelope(content []byte) (h envelope.Header, ok bool, err error) {
	if !envelope.IsSealed(content) {
		return h, false, nil
	}
	if h, err = envelope.ParseHeader(content); err == nil && h.IsForeign() {
		return h, true, errForeign
	}
	return h, err == nil || !r.computed(), err // Lua may return bytes that only begin like an envelope
}

// computed reports whether a reply may hold values made by Lua or SQL, not only stored ones.
func (r *reply) computed() bool {
	switch r.kind {
	case wire.Call, wire.Call16, wire.Eval, wire.Execute, wire.Event:
		return true
	}
	return false
}

// maxHead is the length of the longest head of a string, in bytes.
const maxHead = 5
