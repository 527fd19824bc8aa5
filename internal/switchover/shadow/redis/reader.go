package redis

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// maxHeld limits the bytes of a connection's unanswered requests and incomplete messages.
const maxHeld = 64 << 20

// request is a command that has no reply yet.
type request struct {
	bytes []byte
	args  [][]byte // within bytes, except for inline requests
	at    time.Time
	*command
	treatment
	opensTx, closesTx bool // a transaction
}

// reader parses one client's connection.
type reader struct {
	p *Protocol
	requestSplitter
	replySplitter

	pending []request
	held    int64 // bytes of pending
	db      string
	watched []string     // keys, since the last transaction
	tx      *transaction // nil outside one
}

// Held returns the number of bytes that are buffered.
func (r *reader) Held() int64 { return r.requestSplitter.held() + r.replySplitter.held() + r.held }

// Request takes bytes that the client sent.
func (r *reader) Request(b []byte, at time.Time) error {
	err := r.requestSplitter.each(b, func(args [][]byte, raw []byte) error { return r.addRequest(request{bytes: raw, args: args, at: at}) })
	if err != nil {
		return err
	}
	if r.Held() > maxHeld {
		return shadow.ErrTooLarge
	}
	return nil
}

func (r *reader) addRequest(q request) error {
	if err := r.p.describe(&q); err != nil {
		return err
	}
	r.pending = append(r.pending, q)
	r.held += q.weight()
	return nil
}

// weight returns the memory that a request takes: its text, the struct, and its arguments' slices.
func (q *request) weight() int64 {
	return int64(len(q.bytes)) + requestBytes + int64(len(q.args))*argBytes
}

// Bytes of a request and of an argument besides their text.
const (
	requestBytes = 256
	argBytes     = 32
)

// describe looks up a request's command. It fails for commands that end the mirroring of their connection.
func (p *Protocol) describe(q *request) error {
	p.lookUp(q)
	if q.unmirrored != "" {
		return fmt.Errorf("%w: %s", shadow.ErrUnmirrored, q.unmirrored)
	}
	if resp.IsWord(q.args[0], "client") && len(q.args) > 1 && resp.IsWord(q.args[1], "reply") {
		return fmt.Errorf("%w: CLIENT REPLY", shadow.ErrUnmirrored)
	}
	return nil
}

func (p *Protocol) lookUp(q *request) {
	name := strings.ToLower(string(q.args[0]))
	q.treatment = treatments[name]
	q.opensTx, q.closesTx = name == "multi", name == "exec" || name == "discard"
	q.command = p.commands[name]
	if q.command == nil {
		q.command = &command{name: "unknown command", writes: true, hasUnknownKeys: true}
		return
	}
	if len(q.args) > 1 && q.command.subcommands != nil {
		if sub := q.command.subcommands[strings.ToLower(string(q.args[1]))]; sub != nil {
			q.command = sub
		}
	}
}

var errUnexpectedReply = errors.New("a reply without a request")

// Reply takes bytes that the server sent.
func (r *reader) Reply(b []byte, at time.Time) (done []*shadow.Operation, err error) {
	err = r.replySplitter.each(b, func(frame []byte) error {
		if len(r.pending) == 0 {
			return errUnexpectedReply
		}
		q := r.pending[0]
		r.pending[0] = request{}
		r.pending = r.pending[1:]
		r.held -= q.weight()
		done = append(done, r.complete(q, frame, at)...)
		return nil
	})
	if err != nil {
		return done, err
	}
	if r.Held() > maxHeld {
		return done, shadow.ErrTooLarge
	}
	return done, nil
}

// complete returns the operations that a reply completes, except those that are not mirrored.
func (r *reader) complete(q request, frame []byte, at time.Time) []*shadow.Operation {
	failed := frame[0] == resp.Error || frame[0] == resp.BulkError
	switch {
	case r.tx != nil:
		return r.inTransaction(q, frame, at)
	case q.opensTx:
		if !failed {
			r.tx = &transaction{at: q.at}
		}
		return nil
	case q.skip || q.closesTx:
		return nil
	}
	if code := productionErrorCode(frame); code != "" {
		return []*shadow.Operation{{SkipReason: productionErrorPrefix + code}}
	}
	op := r.operation(q)
	if q.rewrite != nil && !q.rewrite(op, q.args, frame) {
		return nil
	}
	if q.setsState && failed {
		return nil
	}
	if !failed {
		r.trackState(q, op)
	}
	op.Expected = int64(len(frame))
	op.Production = answerOf(frame, op.Form)
	op.Production.Took = at.Sub(q.at)
	op.Production.Lost = q.rewrite != nil
	before := r.expireBefore(op, q, frame, at)
	r.extendTTL(op, q, frame, at)
	r.extendScriptTTLs(op, []request{q}, at)
	r.markManaged(op)
	return append(before, op)
}

// trackState records the effect of a successful request on later ones.
func (r *reader) trackState(q request, op *shadow.Operation) {
	switch q.name {
	case "select":
		r.db = string(q.args[1])
	case "watch":
		r.watched = append(r.watched, op.Keys...)
	case "unwatch":
		r.watched = nil
	}
}

// operation returns a request as an operation for the engine.
func (r *reader) operation(q request) *shadow.Operation {
	op := &shadow.Operation{Kind: shadow.Write, Request: q.bytes, Form: q.form}
	keys, known := q.keysOf(q.args)
	switch {
	case q.setsState:
		op.Kind = shadow.State
	case q.reads:
		op.Kind = shadow.Read
	}
	if q.anyOrder && op.Form == plain {
		op.Form = unordered
	}
	if q.treatment.random || q.command.random || strings.HasSuffix(q.name, " help") {
		op.Check = shadow.Success
	}
	if q.chooseForm != nil {
		q.chooseForm(op, q.args)
	}
	op.Name = strings.ToUpper(q.name)
	if len(keys) > 0 {
		op.Name += " " + pattern(keys[0])
	}
	for _, k := range keys {
		op.Keys = append(op.Keys, nameOf(r.db, k))
	}
	op.TouchesAll = !known || len(keys) == 0 && !q.touchesNothing && !q.setsState || q.touchesMore(q.args)
	return op
}

// touchesMore reports whether a request touches more than its keys: another database, or what an index
// covers.
func (c *command) touchesMore(args [][]byte) bool {
	return c.name == "move" || c.name == "copy" && len(args) > 4 || strings.HasPrefix(c.name, "ft.")
}

// Keys may contain any bytes, so those of shadow.Part are escaped.
var (
	escape   = strings.NewReplacer("\x01", "\x01\x01", shadow.Part, "\x01\x02")
	unescape = strings.NewReplacer("\x01\x01", "\x01", "\x01\x02", shadow.Part)
)

// nameOf returns the name of a key in operations.
func nameOf(db string, key []byte) string { return db + " " + escape.Replace(string(key)) }

// keyOf is the inverse of nameOf.
func keyOf(name string) (db, key string) {
	db, key, _ = strings.Cut(name, " ")
	return db, unescape.Replace(key)
}

// maxPattern limits the bytes of a key that its pattern is made from.
const maxPattern = 64

// pattern returns a key with parts that look like identifiers replaced by *.
func pattern(key []byte) string {
	var b strings.Builder
	for part := range bytes.SplitSeq(key[:min(len(key), maxPattern)], []byte(":")) {
		if b.Len() > 0 {
			b.WriteByte(':')
		}
		if isWord(part) {
			b.Write(part)
		} else {
			b.WriteByte('*')
		}
	}
	return b.String()
}

// isWord reports whether a part of a key is a name rather than an identifier.
func isWord(part []byte) bool {
	if len(part) == 0 || len(part) > 24 {
		return false
	}
	for _, c := range part {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '-' && c != '{' && c != '}' {
			return false
		}
	}
	return true
}
