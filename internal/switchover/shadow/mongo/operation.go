package mongo

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// statement holds a command in the form that targets get.
type statement struct {
	body []byte
	rest []byte // sections after it

	form      uint8
	check     shadow.Check
	retryable bool    // production's was a retryable write
	opens     *cursor // gets the cursor ID in the answer
	moves     *cursor // its cursor ID is put into the command
	idAt      int     // offset of that ID in the body
}

// work holds the statements of an operation.
type work struct {
	statements  []*statement
	transaction bool
	aborts      bool // it ends with abortTransaction
}

// build returns the operation of a request and its answer.
func (p *Protocol) build(q *request, reply []byte, at time.Time) *shadow.Operation {
	p.settle(q, reply)
	op := &shadow.Operation{Kind: shadow.Read, Name: q.fingerprint()}
	if q.writes() || q.outputs() {
		op.Kind = shadow.Write
	}
	p.touch(op, q)
	id := cursorOf(reply)
	q.setComparison(op, id == 0)
	if op.Kind == shadow.Write && q.class != define && q.class != insert && q.volatile() {
		p.catalog.differs(q.namespace(), "written with the time or random numbers", true)
	}
	if p.catalog.about(q.namespace()).volatile && !q.writes() {
		op.Check = shadow.Success
	}
	if q.class == define {
		p.catalog.follow(q)
	}
	s := &statement{body: q.body, form: op.Form, check: op.Check, retryable: q.transaction > 0 && !q.inTransaction}
	for _, section := range q.sections {
		s.rest = appendSection(s.rest, section.name, section.documents)
	}
	if id != 0 {
		s.opens = &cursor{opened: op, form: many, check: shadow.Success}
		if op.Form == sequence {
			s.opens.form, s.opens.check = sequence, op.Check
		}
		p.cursors.open(id, s.opens, at)
		op.Uses = append(op.Uses, cursorKey(id))
	}
	return p.finish(op, q, s, reply, at)
}

// finish sets an operation's statement and production's answer.
func (p *Protocol) finish(op *shadow.Operation, q *request, s *statement, reply []byte, at time.Time) *shadow.Operation {
	op.Request = slices.Concat(s.body, s.rest)
	s.body, s.rest = op.Request[:len(s.body):len(s.body)], op.Request[len(s.body):]
	op.Private = &work{statements: []*statement{s}}
	op.Production = answerOf(reply, op.Form)
	op.Production.Took = at.Sub(q.at)
	return op
}

// cursorKey returns the key that all operations on a cursor touch.
func cursorKey(id int64) string { return "cursor " + strconv.FormatInt(id, 10) }

// readOn returns the operation of a getMore.
func (p *Protocol) readOn(q *request, reply []byte, at time.Time) *shadow.Operation {
	id, _ := number(q.body, "getMore")
	c := p.cursors[id]
	if c == nil {
		return &shadow.Operation{SkipReason: "getMore of cursors that are not mirrored"}
	}
	c.used = at
	if cursorOf(reply) == 0 {
		delete(p.cursors, id)
	}
	op := &shadow.Operation{Kind: shadow.Read, Name: q.fingerprint(), Form: c.form, Check: c.check, Follows: c.opened, Uses: []string{cursorKey(id)}}
	p.touch(op, q)
	s := &statement{body: q.body, form: c.form, check: c.check, moves: c, idAt: 4 + 1 + len("getMore") + 1}
	return p.finish(op, q, s, reply, at)
}

// endCursors returns the operations of a killCursors: one for each mirrored cursor.
func (p *Protocol) endCursors(q *request, reply []byte, at time.Time) (ops []*shadow.Operation) {
	each(document(q.body, "cursors"), func(_ string, v bsoncore.Value) {
		id, _ := integer(v)
		c := p.cursors[id]
		if c == nil {
			return
		}
		delete(p.cursors, id)
		body := []byte{0, 0, 0, 0}
		body = bsoncore.AppendStringElement(body, "killCursors", q.collection)
		body = bsoncore.AppendStringElement(body, "$db", q.db)
		at0, body := bsoncore.AppendArrayElementStart(body, "cursors")
		body = bsoncore.AppendInt64Element(body, "0", id)
		idAt := len(body) - 8
		body, _ = bsoncore.AppendArrayEnd(body, at0)
		s := &statement{body: wire.FinishDocument(body, 0), check: shadow.Success, moves: c, idAt: idAt}
		op := &shadow.Operation{Kind: shadow.Read, Name: q.fingerprint(), Check: shadow.Success, Follows: c.opened, Uses: []string{cursorKey(id)}}
		ops = append(ops, p.finish(op, q, s, reply, at))
	})
	return ops
}

// maxFields limits the fields of a filter in a fingerprint.
const maxFields = 4

// fingerprint returns the command, its collection and the fields of its filter.
func (q *request) fingerprint() string {
	name := q.name
	if q.collection != "" {
		name += " " + numbers.ReplaceAllString(q.db+"."+q.collection, "*")
	}
	var fields []string
	switch q.class {
	case update:
		fields = fieldsOf(q.documents("updates"), "q")
	case remove:
		fields = fieldsOf(q.documents("deletes"), "q")
	case aggregate:
		for _, s := range q.pipeline() {
			fields = append(fields, stage(s))
		}
	default:
		each(q.filter(), func(key string, _ bsoncore.Value) { fields = append(fields, key) })
		slices.Sort(fields)
	}
	if len(fields) == 0 {
		return name
	}
	more := ""
	if len(fields) > maxFields {
		fields, more = fields[:maxFields], ",…"
	}
	return name + " {" + numbers.ReplaceAllString(strings.Join(fields, ","), "*") + more + "}"
}

// fieldsOf returns the fields of the first filter.
func fieldsOf(documents [][]byte, filter string) (fields []string) {
	if len(documents) > 0 {
		each(document(documents[0], filter), func(key string, _ bsoncore.Value) { fields = append(fields, key) })
	}
	slices.Sort(fields)
	return fields
}

// numbers matches numbers and hexadecimal IDs in names, which would make too many fingerprints.
var numbers = regexp.MustCompile(`[0-9a-fA-F]{8,}|[0-9]+`)

// ownFailures holds the errors that are due to production's state at that moment, not to the command.
var ownFailures = map[string]bool{
	"Unauthorized": true, "AuthenticationFailed": true, "MaxTimeMSExpired": true, "ExceededTimeLimit": true, "Interrupted": true, "WriteConflict": true,
	"NotWritablePrimary": true, "NotPrimaryNoSecondaryOk": true, "NotPrimaryOrSecondary": true, "PrimarySteppedDown": true, "ShutdownInProgress": true,
	"InterruptedAtShutdown": true, "InterruptedDueToReplStateChange": true, "CursorNotFound": true, "CursorKilled": true, "CursorInUse": true,
	"SnapshotUnavailable": true, "SnapshotTooOld": true, "NoSuchTransaction": true, "TransactionTooOld": true, "IncompleteTransactionHistory": true,
	"LockTimeout": true, "ReadConcernMajorityNotAvailableYet": true, "UnknownReplWriteConcern": true, "UnsatisfiableWriteConcern": true,
	"NotAReplicaSet": true, "IllegalOperation": true, "WriteConcernFailed": true, "RetryChangeStream": true, "OutOfDiskSpace": true,
}

// answered returns the operations that an answer completes.
func (p *Protocol) answered(q *request, reply []byte, at time.Time) []*shadow.Operation {
	if q.inTransaction {
		return p.inTransaction(q, reply, at)
	}
	if code := failure(reply); ownFailures[code] || labelled(reply, "RetryableWriteError") {
		return leftOut("failed in production by itself: " + cmp.Or(code, text(document(reply, "writeConcernError"), "codeName"), "to be tried again"))
	}
	if p.transactions.retried(q) {
		return leftOut("retried writes that had been executed")
	}
	ops, why := p.operations(q, reply, at)
	if why != "" {
		return leftOut(why)
	}
	return ops
}

// operations returns the operations of a request and its answer. why, unless empty, is the reason to count it as left
// out.
func (p *Protocol) operations(q *request, reply []byte, at time.Time) (ops []*shadow.Operation, why string) {
	switch {
	case q.class == unknown, q.class == left:
		return nil, q.name
	case q.class == commit, q.class == abort:
		return nil, ""
	case q.class == killCursors:
		return p.endCursors(q, reply, at), ""
	case q.class == getMore:
		return []*shadow.Operation{p.readOn(q, reply, at)}, ""
	}
	if why := q.excluded(); why != "" {
		return nil, why
	}
	return []*shadow.Operation{p.build(q, reply, at)}, ""
}

// excluded returns why a command on data is not mirrored; "": it is.
func (q *request) excluded() string {
	switch q.class {
	case define, look, bulkWrite:
		return ""
	}
	stages := q.pipeline()
	switch {
	case q.class == aggregate && len(stages) > 0 && stage(stages[0]) == "$changeStream":
		return "change streams"
	case truth(q.body, "tailable"):
		return "tailable cursors"
	case q.collection == "":
		return q.name + " without a collection"
	case q.ofServer():
		return q.name + " of the server's own collections"
	}
	return ""
}
