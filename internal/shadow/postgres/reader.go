package postgres

import (
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/shadow/postgres/sql"
	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// mostHeld bounds the bytes of a connection's requests that are under way, and of a message.
const mostHeld = 64 << 20

// States of a transaction, as ReadyForQuery has them.
const (
	idle     = 'I'
	inside   = 'T'
	inFailed = 'E'
)

// reader understands one client's connection.
type reader struct {
	p       *Protocol
	in, out []byte
	held    int64 // bytes of units, and of what is known of prepared statements

	startup []byte // nil before it has come
	cancels bool   // the connection is a cancellation
	ready   bool   // logged in
	status  byte   // of the transaction

	pending  []*unit // complete, in their order
	building *unit   // nil: nothing has come since the last one
	prepared map[string]*sql.Statement
	portals  map[string]*sql.Statement
}

func newReader(p *Protocol) *reader {
	return &reader{p: p, status: idle, prepared: map[string]*sql.Statement{}, portals: map[string]*sql.Statement{}}
}

// Held is the number of bytes that are kept.
func (r *reader) Held() int64 { return int64(cap(r.in)+cap(r.out)) + r.held }

// Request takes bytes of the client's.
func (r *reader) Request(b []byte, at time.Time) error {
	if r.cancels {
		return nil
	}
	r.in = append(r.in, b...)
	if r.startup == nil {
		if err := r.start(); err != nil || r.startup == nil {
			return err
		}
	}
	for {
		m, ok, err := pg.Cut(r.in)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := r.ask(m, at); err != nil {
			return err
		}
		r.in = r.in[len(m.Raw):]
	}
	if len(r.in) == 0 {
		r.in = nil
	}
	if r.Held() > mostHeld {
		return shadow.ErrTooLarge
	}
	return nil
}

// start takes the first packet, when it is there.
func (r *reader) start() error {
	if len(r.in) < pg.StartupHeaderBytes {
		return nil
	}
	n, code, err := pg.StartupHead(r.in)
	if err != nil || len(r.in) < n {
		return err
	}
	if code == pg.CancelRequest {
		r.cancels, r.in = true, nil
		return nil
	}
	parameters, err := pg.StartupParameters(r.in[:n])
	if err != nil {
		return err
	}
	switch parameters["replication"] {
	case "", "false", "off", "no", "0":
	default:
		return fmt.Errorf("%w: replication", shadow.ErrUnmirrored)
	}
	r.startup = append([]byte(nil), r.in[:n]...)
	r.in = r.in[n:]
	return nil
}

// ask takes a message of the client's.
func (r *reader) ask(m pg.Message, at time.Time) error {
	switch m.Type {
	case pg.Password, pg.Terminate:
		return nil
	case pg.CopyData, pg.CopyDone, pg.CopyFail:
		r.copy(m)
		return nil
	case pg.Sync:
		if u := r.copying(); u != nil && u.complete && u.extended && u.copied {
			r.append(u, m) // the server has ignored the first one
			u.extended = false
			return nil
		}
	}
	if r.building == nil {
		r.building = newUnit(at)
	}
	u := r.building
	r.append(u, m)
	if err := r.note(u, m); err != nil {
		return err
	}
	if m.Type == pg.Sync || m.Type == pg.Query || m.Type == pg.FunctionCall {
		u.complete = true
		r.pending = append(r.pending, u)
		r.building = nil
	}
	return nil
}

func (r *reader) append(u *unit, m pg.Message) {
	u.add(m)
	r.held += int64(len(m.Raw))
}

// note reads what a message says of a unit.
func (r *reader) note(u *unit, m pg.Message) error {
	switch m.Type {
	case pg.Query:
		text, _, err := pg.String(m.Body)
		u.executed = append(u.executed, r.p.look(text))
		return err
	case pg.FunctionCall:
		u.executed = append(u.executed, nil)
	case pg.Parse:
		u.extended = true
		return r.noteParse(u, m)
	case pg.Bind:
		u.extended = true
		portal, statement, err := pg.TwoStrings(m.Body)
		r.portals[portal] = r.prepared[statement]
		u.changes = u.changes || portal != ""
		return err
	case pg.Execute:
		u.extended = true
		portal, _, err := pg.String(m.Body)
		u.executed = append(u.executed, r.portals[portal])
		return err
	case pg.Close:
		u.changes = true
	}
	return nil
}

func (r *reader) noteParse(u *unit, m pg.Message) error {
	name, text, err := pg.TwoStrings(m.Body)
	if err != nil {
		return err
	}
	s := r.p.look(text)
	if _, known := r.prepared[name]; !known {
		r.held += int64(len(name)) + 64
	}
	r.prepared[name] = s
	u.prepared = append(u.prepared, s)
	if name != "" {
		u.changes = true
		u.parses = append(u.parses, m.Raw...)
	}
	return nil
}

// copying is the unit that production takes a COPY's data for, or nil.
func (r *reader) copying() *unit {
	if u := r.current(); u != nil && u.copies {
		return u
	}
	return nil
}

// current is the unit that production answers.
func (r *reader) current() *unit {
	if len(r.pending) > 0 {
		return r.pending[0]
	}
	return r.building
}

// copy takes data of a COPY. A client that does not wait for the server's consent sends it behind its last request; what comes after
// a COPY has failed is ignored, by the server too.
func (r *reader) copy(m pg.Message) {
	u := r.copying()
	if u == nil && len(r.pending) > 0 {
		u = r.pending[len(r.pending)-1]
	}
	if u == nil {
		u = r.building
	}
	if u == nil {
		return
	}
	r.append(u, m)
	if m.Type != pg.CopyData {
		u.copied = true
	}
}

var errUnasked = errors.New("an answer without a request")

// Reply takes bytes of the server's.
func (r *reader) Reply(b []byte, at time.Time) (done []*shadow.Operation, err error) {
	if r.cancels {
		return nil, nil
	}
	r.out = append(r.out, b...)
	for {
		m, ok, err := pg.Cut(r.out)
		if err != nil {
			return done, err
		}
		if !ok {
			break
		}
		op, err := r.hear(m, at)
		if op != nil {
			done = append(done, op)
		}
		if err != nil {
			return done, err
		}
		r.out = r.out[len(m.Raw):]
	}
	if len(r.out) == 0 {
		r.out = nil
	}
	if r.Held() > mostHeld {
		return done, shadow.ErrTooLarge
	}
	return done, nil
}

// hear takes a message of the server's. It returns the operation that this completes.
func (r *reader) hear(m pg.Message, at time.Time) (*shadow.Operation, error) {
	if !r.ready {
		if m.Type != pg.ReadyForQuery {
			return nil, nil
		}
		r.ready = true
		return r.begin(), nil
	}
	switch m.Type {
	case pg.NoticeResponse, pg.NotificationResponse, pg.ParameterStatus:
		return nil, nil
	case pg.CopyBothResponse:
		return nil, fmt.Errorf("%w: replication", shadow.ErrUnmirrored)
	}
	u := r.current()
	if u == nil {
		if m.Type == pg.ErrorResponse { // the server ends the connection
			return nil, nil
		}
		return nil, errUnasked
	}
	if u.judged != len(u.executed) {
		u.judged = len(u.executed)
		u.digest.form, _ = u.forms()
	}
	if m.Type != pg.ReadyForQuery {
		if m.Type == pg.CopyInResponse {
			u.copies = true
		}
		u.digest.add(m)
		return nil, nil
	}
	if len(r.pending) == 0 || len(m.Body) != 1 {
		return nil, errUnasked
	}
	r.pending[0] = nil
	r.pending = r.pending[1:]
	r.held -= int64(len(u.bytes))
	before := r.status
	r.status = m.Body[0]
	u.digest.add(m)
	return r.answered(u, before, at), nil
}

// begin is the operation that connects to a target as the client has connected to production.
func (r *reader) begin() *shadow.Operation {
	return &shadow.Operation{Kind: shadow.State, Name: "connect", Check: shadow.Success, Request: r.startup, Form: formStart, Production: shadow.Answer{Lost: true}}
}

// End ends the connection at the targets, with its transaction and its locks.
func (r *reader) End() []*shadow.Operation {
	if !r.ready {
		return nil
	}
	return []*shadow.Operation{{
		Kind: shadow.State, Name: "disconnect", Check: shadow.Success, Request: pg.Append(nil, pg.Terminate), Form: formEnd,
		Whole: true, Locks: true, Production: shadow.Answer{Lost: true},
	}}
}

// answered is the operation that a unit is, now that production has answered.
func (r *reader) answered(u *unit, before byte, at time.Time) *shadow.Operation {
	if u.code != "" && ownReason(u.code) {
		return instead(u, before, r.status)
	}
	op := &shadow.Operation{Name: u.name(), Request: u.whole()}
	op.Form = u.digest.form
	if _, nature := u.forms(); nature {
		op.Check = shadow.Success
	}
	switch u.effect() {
	case sql.Session:
		op.Kind = shadow.State
	case sql.Reads:
		op.Kind = shadow.Read
		op.Keep = u.changes || before != idle
		op.Snapshot = len(u.executed) == 1
	case sql.Writes:
		op.Kind = shadow.Write
		op.Whole, op.Locks = true, true
	}
	op.Production = u.digest.answer(at.Sub(u.at))
	return op
}
