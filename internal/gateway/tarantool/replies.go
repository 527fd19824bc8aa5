package tarantool

import (
	"context"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// reply is one answer of the server's while it is handled. It is used again for the next.
type reply struct {
	bytes  []byte // the frame without its length
	header wire.Header
	body   wire.Body
	kind   wire.Type // of the request
	held   int64     // of the reply budget, for what was opened
}

// pumpReplies carries the greeting and then replies, until the server ends or an error.
func (s *session) pumpReplies() {
	defer s.out.Free()
	defer func() { _ = s.toClient.flush() }()
	greeting, err := s.out.raw(wire.GreetingLen)
	if err == nil {
		s.g.catalog.greet()
		version := store.ParseVersion(string(greeting))
		s.server.Store(&version)
		err = s.toClient.send(greeting)
	}
	for err == nil {
		var f frame
		if f, err = s.out.next(); err == nil {
			err = s.handleReply(&f)
		}
	}
	s.LogEnd(gateway.FromUpstream, errorClass(err), err)
}

// handleReply sends one frame of the server's to the client.
func (s *session) handleReply(f *frame) error {
	if s.piped.Load() {
		return s.pipeReplies(f.bytes)
	}
	began := time.Now()
	r := &s.reply
	r.bytes = f.body()
	if err := r.header.Parse(r.bytes); err != nil {
		return err
	}
	if r.header.Schema != s.schema {
		s.schema = r.header.Schema
		s.g.catalog.note(s.schema)
	}
	switch r.header.Type {
	case wire.Event:
		return s.answer(f, &exchange{kind: wire.Event})
	case wire.Chunk:
		return s.answerPart(f)
	}
	e, ok := s.pending.take(r.header.Sync)
	switch {
	case !ok:
	case e.splice != nil:
		return s.answerSplice(f, &e)
	case e.probe:
		s.pending.begun(e.stream, e.sent)
		return nil
	case e.stamp != 0 && r.header.Type == wire.ErrorFlag|wire.ErrSchemaVersion:
		s.g.catalog.refused(e.stamp)
		s.g.cfg.Stats.Error("schema_changed")
		if s.pending.park(r.header.Sync, e) {
			s.background.Add(1)
			go s.sendParked(e.stream)
		}
		return nil
	}
	s.passDoor(e.kind, r.header.Type)
	if e.kind == wire.Auth {
		s.identity.answered(r.header.Sync, r.header.Type)
	}
	defer s.pending.drop(&e)
	if e.broken != "" {
		return s.toClient.write(s.errorReply(e.broken))
	}
	err := s.answer(f, &e)
	if ok {
		s.g.cfg.Stats.Latency(e.spent + time.Since(began))
	}
	return err
}

// answerPart sends what box.session.push sent. A part that does not open is left out, and the
// reply itself becomes the error.
func (s *session) answerPart(f *frame) error {
	sync := s.reply.header.Sync
	e := exchange{kind: s.pending.kindOf(sync)}
	defer s.release()
	out, no := s.open(f, e.kind)
	if no != nil {
		s.pending.breakUp(sync, no.text)
		return nil
	}
	defer gateway.PutBuffer(out)
	return s.sendReply(f, out)
}

// answer sends a reply with what is sealed in it opened.
func (s *session) answer(f *frame, e *exchange) error {
	defer s.release()
	out, no := s.open(f, e.kind)
	if no != nil {
		return s.toClient.write(wire.AppendError(nil, s.reply.header.Sync, s.schema, no.code, no.text))
	}
	defer gateway.PutBuffer(out)
	return s.sendReply(f, out)
}

func (s *session) sendReply(f *frame, opened []byte) error {
	if opened == nil {
		return s.toClient.write(f.bytes)
	}
	return s.toClient.write(opened)
}

func (s *session) errorReply(text string) []byte {
	return wire.AppendError(nil, s.reply.header.Sync, s.schema, wire.ErrSystem, text)
}

// open gives a reply with its envelopes opened, in a buffer of the pool's; nil when nothing
// changes.
func (s *session) open(f *frame, kind wire.Type) ([]byte, *refusal) {
	r := &s.reply
	r.kind = kind
	at := r.header.Map.End()
	if kind != wire.ID && !hasMagic(r.bytes[at:]) {
		return nil, nil
	}
	if err := r.body.Parse(r.bytes, at); err != nil {
		s.g.cfg.Stats.Error("upstream_malformed")
		return nil, &refusal{wire.ErrSystem, "malformed", "cinch: the server's reply is malformed: " + err.Error()}
	}
	if kind == wire.ID {
		return withoutFeatures(r.bytes, &r.body), nil
	}
	size, err := s.find()
	if err != nil {
		return nil, s.broken(err)
	}
	if size == 0 {
		return nil, nil
	}
	if err := s.reserve(size); err != nil {
		s.g.cfg.Stats.Error("budget")
		return nil, &refusal{wire.ErrNoMemory, "budget", fmt.Sprintf("cinch: a reply of %d bytes does not fit the memory budget", size)}
	}
	out, err := s.g.openAll(r, size)
	if err != nil {
		return nil, s.broken(err)
	}
	return out, nil
}

// find looks for the envelopes in a reply, and returns how many bytes it has at most when they are
// opened, 0 when there are none. They are looked for again to be opened, for a list of them could
// take more memory than the reply.
func (s *session) find() (size int, err error) {
	r := &s.reply
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
		if err == nil && h.RawLen > s.g.sealer.MaxOpen() {
			err = fmt.Errorf("%w: %d bytes, at most %d are opened", cinch.ErrTooLarge, h.RawLen, s.g.sealer.MaxOpen())
		}
		if err != nil {
			return 0, err
		}
		size += h.RawLen - len(content) + maxHead
		if size > maxFrame {
			return 0, fmt.Errorf("%w: the reply would have over %d bytes", cinch.ErrTooLarge, maxFrame)
		}
	}
	if !found {
		return 0, strings.Err()
	}
	return size, strings.Err()
}

// strings are all in the reply's body.
func (r *reply) strings() wire.Strings {
	return wire.NewStrings(r.bytes, wire.Span{At: r.body.At, Len: r.body.End - r.body.At})
}

// envelope reads the header of a string that is one, or should be.
func (r *reply) envelope(content []byte) (h cinch.Header, ok bool, err error) {
	if !cinch.IsSealed(content) {
		return h, false, nil
	}
	h, err = cinch.ParseHeader(content)
	return h, err == nil || !r.computed(), err // what Lua makes is any bytes
}

// maxHead is the longest head of a string.
const maxHead = 5

// computed reports that a reply holds what Lua or SQL made, not only what is stored.
func (r *reply) computed() bool {
	switch r.kind {
	case wire.Call, wire.Call16, wire.Eval, wire.Execute, wire.Event:
		return true
	}
	return false
}

// reserve takes room for a large reply from the budget. It waits for a limited time only.
func (s *session) reserve(size int) error {
	budget := s.out.Account
	if size <= gateway.FreeBytes || budget == nil {
		return nil
	}
	if !budget.TryAcquire(int64(size)) {
		if err := s.toClient.flush(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(s.Context(), reservePatience*s.g.cfg.Stall)
		defer cancel()
		if err := budget.Acquire(ctx, int64(size)); err != nil {
			return err
		}
	}
	s.reply.held = int64(size)
	return nil
}

// release gives back what reserve took, when the reply is on its way.
func (s *session) release() {
	s.out.Account.Release(s.reply.held)
	s.reply.held = 0
}

// reservePatience is how many times Stall a reply waits for room.
const reservePatience = 5

// openAll makes the frame with the values in place of their envelopes.
func (g *Gateway) openAll(r *reply, size int) ([]byte, error) {
	out := wire.BeginFrame(gateway.GetBuffer(size + maxHead))
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
		began := time.Now()
		opened, err := g.sealer.Open(out, stored)
		if err != nil {
			gateway.PutBuffer(out)
			return nil, err
		}
		out = opened
		g.cfg.Stats.Opened(h.Codec, len(stored), h.RawLen, time.Since(began))
		last = strings.Content.End()
	}
	return wire.FinishFrame(append(out, r.bytes[last:]...), 0), nil
}

// broken is what to tell the client when a sealed value does not open.
func (s *session) broken(cause error) *refusal {
	return s.g.broken(cause, s.client.RemoteAddr().String())
}

func (g *Gateway) broken(cause error, client string) *refusal {
	class, text := gateway.Unopened(cause)
	g.cfg.Stats.Error(class)
	g.cfg.Log.Warn("sealed value does not open", "class", class, "client", client, "err", cause)
	return &refusal{wire.ErrSystem, class, "cinch: " + text}
}
