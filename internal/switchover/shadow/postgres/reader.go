package postgres

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// reader turns the bytes of one client's connection into operations. The engine limits its memory.
type reader struct {
	p       *Protocol
	in, out []byte
	held    int64 // bytes of units and of prepared statements

	startup    []byte // nil before it has come
	catalog    *catalog
	tracked    *trackedCatalog // nil: the catalog is not read from a server
	staleness  staleness       // what the catalog lacks because of the open transaction
	isCancel   bool            // the connection is a cancellation
	ready      bool            // logged in
	terminated bool            // the client has sent Terminate
	ended      bool            // End was called
	status     byte            // of the transaction

	// The open transaction redefines tables or functions. Other connections see that from its COMMIT on.
	redefines bool

	pending  []*unit // complete, in order
	building *unit   // nil: nothing has come since the last one
	prepared map[string]*statement
	portals  map[string]portal
}

func newReader(p *Protocol) *reader {
	return &reader{p: p, status: idle, catalog: newCatalog(), prepared: map[string]*statement{}, portals: map[string]portal{}}
}

// Held returns the number of bytes that are kept.
func (r *reader) Held() int64 { return int64(cap(r.in)+cap(r.out)) + r.held }

// Request handles bytes from the client.
func (r *reader) Request(b []byte, at time.Time) error {
	if r.isCancel || r.ended {
		return nil
	}
	r.in = append(r.in, b...)
	if r.startup == nil {
		if err := r.start(); err != nil || r.startup == nil {
			return err
		}
	}
	return each(&r.in, func(m pg.Message) error { return r.handleRequest(m, at) })
}

// start handles the first packet once it is complete.
func (r *reader) start() error {
	if len(r.in) < pg.StartupHeaderBytes {
		return nil
	}
	n, code, err := pg.StartupHead(r.in)
	if err != nil || len(r.in) < n {
		return err
	}
	if code == pg.CancelRequest {
		r.isCancel, r.in = true, nil
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
	r.in = shadow.Remainder(r.in, r.in[n:])
	return r.p.only.admits(r.database())
}

// handleRequest handles a message from the client.
func (r *reader) handleRequest(m pg.Message, at time.Time) error {
	switch m.Type {
	case pg.Password:
		return nil
	case pg.Terminate:
		r.terminated = true
		return nil
	case pg.CopyData, pg.CopyDone, pg.CopyFail:
		r.copy(m)
		return nil
	case pg.Sync:
		if u := r.copying(); u != nil && u.complete && u.extended && u.copyEnded {
			u.add(m) // the server has ignored the first one
			r.countHeld(u)
			u.extended = false
			return nil
		}
	}
	if r.building == nil {
		r.building = newUnit(at)
	}
	u := r.building
	u.add(m)
	err := r.recordMessage(u, m)
	r.countHeld(u)
	if err != nil {
		return err
	}
	if m.Type == pg.Sync || m.Type == pg.Query || m.Type == pg.FunctionCall {
		u.complete = true
		r.pending = append(r.pending, u)
		r.building = nil
	}
	return nil
}

// countHeld adds the growth of a unit to held. Parts that production's answer consumes stay counted until the answer is
// complete.
func (r *reader) countHeld(u *unit) {
	before := u.heldBytes
	u.heldBytes = max(before, u.size())
	r.held += u.heldBytes - before
}

// recordMessage records what a message adds to a unit.
func (r *reader) recordMessage(u *unit, m pg.Message) error {
	switch m.Type {
	case pg.Query:
		text, _, err := pg.String(m.Body)
		u.addExecuted(r.p.analyze(text))
		return err
	case pg.FunctionCall:
		u.addExecuted(nil)
	case pg.Parse:
		u.extended = true
		return r.noteParse(u, m)
	case pg.Bind:
		u.extended = true
		return r.noteBind(u, m)
	case pg.Execute:
		u.extended = true
		name, _, err := pg.String(m.Body)
		u.execute(r.portals[name])
		return err
	case pg.Describe:
		return r.noteDescribe(u, m)
	case pg.Close:
		u.extended, u.changes = true, true
		return r.noteClose(m)
	}
	return nil
}

// maxPortals limits the named portals that are tracked. Their transaction may be over, so many names do not
// mean many in use.
const maxPortals = 1000

// noteBind records which statement a portal executes.
func (r *reader) noteBind(u *unit, m pg.Message) error {
	name, statement, err := pg.TwoStrings(m.Body)
	if len(r.portals) >= maxPortals {
		clear(r.portals) // unknown portals count as writes
	}
	p := portal{of: r.prepared[statement]}
	if p.of != nil && (p.of.Sequence != "" || p.of.Has("insert")) {
		p.formats = pg.ResultFormats(m.Body)
	}
	r.portals[name] = p
	u.bind(p.of)
	u.changes = u.changes || name != ""
	return err
}

// noteClose drops a prepared statement or a portal. If the server does not get as far as the Close, the name
// counts as unknown.
func (r *reader) noteClose(m pg.Message) error {
	if len(m.Body) == 0 {
		return pg.ErrProtocol
	}
	name, _, err := pg.String(m.Body[1:])
	if m.Body[0] == 'P' {
		delete(r.portals, name)
		return err
	}
	if old, known := r.prepared[name]; known {
		delete(r.prepared, name)
		r.held -= preparedBytes(name, old)
	}
	return err
}

// preparedBytes returns the bytes that a prepared statement counts in held. Its text belongs to the Protocol.
func preparedBytes(name string, s *statement) int64 { return int64(len(name)+len(s.parse)) + 64 }

func (r *reader) noteParse(u *unit, m pg.Message) error {
	name, text, err := pg.TwoStrings(m.Body)
	if err != nil {
		return err
	}
	s := &statement{Statement: r.p.analyze(text)}
	if isGuidable(s.Statement) {
		s.parse = append([]byte(nil), m.Raw...)
	}
	if old, known := r.prepared[name]; known {
		r.held -= preparedBytes(name, old)
	}
	r.held += preparedBytes(name, s)
	r.prepared[name] = s
	u.newStatements = append(u.newStatements, s)
	u.prepared = append(u.prepared, s.Statement)
	if name != "" {
		u.changes = true
		u.parses = append(u.parses, m.Raw...)
	}
	return nil
}

// noteDescribe records whether a prepared statement or a portal is described.
func (r *reader) noteDescribe(u *unit, m pg.Message) error {
	u.extended = true
	if len(m.Body) == 0 {
		return pg.ErrProtocol
	}
	name, _, err := pg.String(m.Body[1:])
	of := r.prepared[name]
	if m.Body[0] == 'P' {
		of = r.portals[name].of
	}
	u.steps = append(u.steps, u.stepOf(pg.Describe, portal{of: of}))
	return err
}

// copying returns the unit for which production reads COPY data, or nil.
func (r *reader) copying() *unit {
	if u := r.current(); u != nil && u.inCopy {
		return u
	}
	return nil
}

// current returns the unit that production is answering.
func (r *reader) current() *unit {
	if len(r.pending) > 0 {
		return r.pending[0]
	}
	return r.building
}

// unansweredUnits returns the units that production has not answered.
func (r *reader) unansweredUnits() []*unit {
	if r.building == nil {
		return r.pending
	}
	return append(slices.Clone(r.pending), r.building)
}

// copy handles COPY data. A client that does not wait for CopyInResponse sends it after its last request.
// Data that comes after a COPY has failed is ignored, as the server does.
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
	u.add(m)
	r.countHeld(u)
	if m.Type != pg.CopyData {
		u.copyEnded = true
	}
}

var errUnexpectedReply = errors.New("an answer without a request")

// Reply handles bytes from the server, and returns the operations that they complete.
func (r *reader) Reply(b []byte, at time.Time) (done []*shadow.Operation, err error) {
	if r.isCancel || r.ended {
		return nil, nil
	}
	r.out = append(r.out, b...)
	err = each(&r.out, func(m pg.Message) error {
		op, err := r.handleReply(m, at)
		if op != nil {
			done = append(done, op)
		}
		return err
	})
	return append(done, r.Unanswered()...), err
}

// handleReply handles a message from the server. It returns the operation that the message completes.
func (r *reader) handleReply(m pg.Message, at time.Time) (*shadow.Operation, error) {
	if !r.ready {
		if m.Type != pg.ReadyForQuery {
			return nil, nil
		}
		r.ready = true
		if r.p.catalogs != nil {
			r.tracked = r.p.catalogs.of(r.database())
			r.tracked.enter()
			r.catalog = r.tracked.catalog
		}
		r.p.readers[r] = true
		return r.connectOperation(), nil
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
		return nil, errUnexpectedReply
	}
	if r.refreshCatalog(u, m) || u.considered != len(u.executed) {
		u.considered = len(u.executed)
		u.digest.storeRows = u.guidedStatement() != nil
		u.digest.form, u.digest.nondeterministic = u.forms(r.catalog)
	}
	u.advanceSteps(r.catalog, m)
	if m.Type != pg.ReadyForQuery {
		switch m.Type {
		case pg.CommandComplete:
			u.staleness = max(u.staleness, stalenessAfter(m.Body))
		case pg.CopyInResponse:
			u.inCopy = true
		}
		u.digest.add(m)
		return nil, nil
	}
	if len(r.pending) == 0 || len(m.Body) != 1 {
		return nil, errUnexpectedReply
	}
	r.pending[0] = nil
	r.pending = r.pending[1:]
	r.held -= u.heldBytes
	before := r.status
	r.status = m.Body[0]
	u.digest.add(m)
	op := r.operation(u, before, at)
	u.notifyGuides(op)
	return op, nil
}

// Midway reports whether a transaction is open.
func (r *reader) Midway() bool { return r.status != idle }

// connectOperation returns the operation that connects to a target with the client's startup.
func (r *reader) connectOperation() *shadow.Operation {
	return &shadow.Operation{Kind: shadow.State, Name: "connect", Check: shadow.Success, Request: r.startup, Form: formStart, Production: shadow.Answer{Lost: true}}
}

// Unanswered ends the connection when the client has sent Terminate and production has answered all before
// it. The closing of the connection itself may be noticed too late: only after the answer to an operation
// that needed it, such as DROP DATABASE, which waits 5 s for connections to end and then fails.
func (r *reader) Unanswered() []*shadow.Operation {
	if !r.terminated || !r.ready || len(r.pending) > 0 {
		return nil
	}
	return r.End()
}

// End returns the operation that ends the connection at the targets, with its transaction and its locks,
// unless that was returned before.
func (r *reader) End() []*shadow.Operation {
	if r.ended {
		return nil
	}
	r.ended = true
	delete(r.p.readers, r)
	if r.tracked != nil {
		r.tracked.exit()
		r.tracked = nil
	}
	for _, u := range r.unansweredUnits() {
		u.notifyGuides(nil)
	}
	if !r.ready {
		return nil
	}
	return []*shadow.Operation{{
		Kind: shadow.State, Name: "disconnect", Check: shadow.Success, Request: pg.Append(nil, pg.Terminate), Form: formEnd,
		TouchesAll: true, Locks: true, Production: shadow.Answer{Lost: true},
	}}
}

// operation returns the operation for a unit that production has answered.
func (r *reader) operation(u *unit, before byte, at time.Time) *shadow.Operation {
	if why := skipReason(u); why != "" {
		r.catalog.markSkipped(u.executed)
		return placeholder(u, why, before, r.status)
	}
	op := &shadow.Operation{Name: u.name(), Request: u.requestBytes()}
	op.Form, op.Example = u.digest.form, u.example(r.startup)
	r.excludeUnknownNumbers(u)
	b := &opData{excluded: u.excluded, numbers: u.numbers}
	if u.excluded != nil || len(u.numbers) > 0 {
		op.Private = b
	}
	if u.digest.nondeterministic {
		op.Check = shadow.Success
	}
	r.learnColumns(u)
	switch u.effect() {
	case sql.Session:
		op.Kind = shadow.State
	case sql.Reads:
		op.Kind = shadow.Read
		op.Keep = u.changesConnection() || before != idle
		op.Snapshot = len(u.executed) == 1
	case sql.Writes:
		op.Kind = shadow.Write
		op.TouchesAll, op.Locks = true, true
		op.Redefines = r.trackRedefinition(u)
		b.guide, b.effect = r.newGuide(u, before), u.sequenceEffect()
		if b.guide != nil || b.effect != noSequenceEffect {
			op.Private = b
		}
	}
	op.Lasts, op.Ends = u.lasts(r.status), u.ends(before, r.status)
	op.Production = u.digest.answer(at.Sub(u.at))
	return op
}

// trackRedefinition reports whether reads that have begun may see the effects of the unit, or of earlier
// units of its transaction.
func (r *reader) trackRedefinition(u *unit) bool {
	redefines := r.redefines || u.redefines()
	r.redefines = redefines && r.status != idle
	return redefines
}

// database returns the client's database.
func (r *reader) database() string {
	parameters, _ := startupParameters(r.startup)
	return parameters["database"]
}

// learnColumns records the nondeterministic columns that a unit has made.
func (r *reader) learnColumns(u *unit) {
	temporary := false
	for _, s := range u.executed {
		if s == nil {
			continue
		}
		if u.code == "" {
			r.catalog.learnSets(s)
		}
		temporary = temporary || s.Words["temp"] != 0 || s.Words["temporary"] != 0
	}
	if !temporary {
		r.staleness = max(r.staleness, u.staleness)
	}
	if r.status == idle && r.tracked != nil {
		r.tracked.mark(r.staleness)
		r.staleness = upToDate
	}
}

// refreshCatalog updates the catalog if a message can't be compared otherwise. It reports whether it did.
func (r *reader) refreshCatalog(u *unit, m pg.Message) bool {
	if r.tracked == nil || r.tracked.staleness == upToDate {
		return false
	}
	return r.tracked.refresh(u.answeredStatement(m))
}

// excludeUnknownNumbers leaves columns out of the comparison if production's answers do not show which
// numbers of a sequence the rows got, so that the targets can't use the same.
func (r *reader) excludeUnknownNumbers(u *unit) {
	for _, d := range u.numbers {
		if d.table != "" && !d.isContiguous() {
			r.catalog.exclude(d.table, d.column, "numbers of a sequence that several clients used at once, one of them for several rows")
		}
	}
	mine := r.catalog.insertedSerials(u.executed)
	if len(mine) == 0 {
		return
	}
	tells := u.returnsInserts()
	r.catalog.excludeShifted(mine, tells)
	for other := range r.p.readers {
		if other == r || other.catalog != r.catalog {
			continue
		}
		for _, its := range other.unansweredUnits() {
			if tells && its.returnsInserts() {
				continue
			}
			for _, one := range r.catalog.insertedSerials(its.executed) {
				if slices.Contains(mine, one) {
					r.catalog.exclude(one.table, one.column, "numbers of a sequence that several clients used at once, with statements that do not return them")
				}
			}
		}
	}
}
