package redis

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// A unit runs one command on keys whose sealed values are put back first, without Lua
// and for any command: scripts, functions, and what the table does not know.
//
//	WATCH keys                  nobody changes them unseen from here on
//	GETRANGE key 0 2 …          which are sealed?
//	GET key …                   their envelopes
//	MULTI
//	SET key value XX KEEPTTL …
//	the command                 its reply is the client's
//	EXEC                        null: somebody changed a key, so start again
//
// It needs the client's connection free of its own WATCH and MULTI; runBeside is for the
// other case (beside.go).

// unitRights remembers whether the user may open transactions: if MULTI were refused, the
// commands behind it would run one by one.
type unitRights struct {
	asked, denied bool
	endless       bool // the server knows of no fields that expire
}

// maxUnitTries bounds the race against writers.
const maxUnitTries = 64

// handleScript runs EVAL, EVALSHA, FCALL and their kin.
func (s *session) handleScript(r *request) error {
	if evalFor(r.cmd.name) == strings.ToUpper(r.cmd.name) {
		s.g.bodies.learn(r.args[1])
	}
	keys, ok := r.cmd.keys.find(r.args)
	if !ok || len(keys) == 0 || s.excluded(keys) {
		if compute.CarriesMagic(r.args[1:]) {
			s.g.cfg.Stats.Guarded(r.cmd.name, "unseen_magic")
		}
		return s.forward(r, s.echoing(r, nil))
	}
	return s.runUnit(r, distinct(keys))
}

func beginsWithMagic(parts []part) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return cinch.IsSealed(p.Value) })
}

// echoing is the entry of a script's reply. What the script was given it may return: an
// element that is a part of an argument, or of a value that was put back, is no envelope of ours.
func (s *session) echoing(r *request, parts []part) entry {
	e := entry{shape: r.cmd.reply}
	if plain := s.lookalikes(r, parts); plain != nil {
		e.op = &op{plainBytes: plain}
	}
	return e
}

// lookalikes are the plain bytes known to a request that hold the magic: its arguments, which are
// copied, and, where they begin with it, values that are put back for it or were set before it in
// the same transaction.
func (s *session) lookalikes(r *request, parts []part) (plain [][]byte) {
	for _, a := range r.args {
		if bytes.Contains(a, []byte(cinch.Magic)) {
			plain = append(plain, bytes.Clone(a))
		}
	}
	for i := range parts {
		if cinch.IsSealed(parts[i].Value) {
			plain = append(plain, parts[i].Value)
		}
	}
	for i := range s.tx.known {
		if cinch.IsSealed(s.tx.known[i].Value) {
			plain = append(plain, s.tx.known[i].Value)
		}
	}
	return plain
}

// runUnit runs a command as a unit, or beside the client's own transaction.
func (s *session) runUnit(r *request, keys [][]byte) error {
	if s.tx.open || s.watched {
		return s.runBeside(r, keys)
	}
	if s.units.denied {
		return s.runBeside(r, keys)
	}
	for range maxUnitTries {
		plain, sealed, err := s.watchKeys(keys)
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(plain.refusal, "NOPERM"):
			s.units.asked, s.units.denied = true, true
			return s.runBeside(r, keys)
		case cluster.Elsewhere(plain.refusal): // the slot may come back before the command would
			return s.refuse(plain.refusal)
		case plain.refusal != "": // the command itself will be refused for the same reason
			return s.forward(r, s.echoing(r, nil))
		}
		if sealed.err != nil || sealed.unseen != "" {
			return s.unitUnseen(&sealed)
		}
		if r.unguarded && beginsWithMagic(sealed.parts) { // and nothing would wrap it afterwards
			sealed.unseen = "ERR cinch: the value begins like an envelope; to change it takes the right to run EVAL on its key"
			return s.unitUnseen(&sealed)
		}
		done, err := s.execUnit(r, keys, sealed.parts)
		if err != nil || done {
			return err
		}
	}
	return s.refuse("ERR cinch: other clients kept changing the keys; try again")
}

// unitUnseen goes on where a value does not open, or can't be looked at: it may be sealed.
func (s *session) unitUnseen(found *sealedParts) error {
	if _, err := s.askPlainly("UNWATCH"); err != nil {
		return err
	}
	if found.err != nil {
		return s.refuseBroken(found.err)
	}
	return s.refuse(found.unseen)
}

// beginUnit sends MULTI. The first time it waits for the answer; ok is false when the user
// may not open transactions, and then nothing is open.
func (s *session) beginUnit() (ok bool, err error) {
	o, err := s.sendCapture([]byte("MULTI"))
	if err != nil || s.units.asked {
		return err == nil, err
	}
	if err := s.await(o); err != nil {
		return false, err
	}
	s.units.asked, s.units.denied = true, o.answer.isError()
	return !s.units.denied, nil
}

// part is one sealed value of a key: a string, or one field of a hash.
type part struct {
	key, field []byte // field is nil for a string
	lua.Known
	expires []byte // when the field does, in milliseconds; nil: it doesn't
}

// watchOutcome and sealedParts are what watchKeys finds.
type (
	watchOutcome struct{ refusal string } // the server's error to WATCH
	sealedParts  struct {
		parts  []part
		err    error
		unseen string // why a key could not be looked at, as the server says it
	}
)

// watchKeys watches the keys and returns those of their values that are sealed. For a
// client with tracking it reads them on the second connection, where no cache is kept.
func (s *session) watchKeys(keys [][]byte) (o watchOutcome, found sealedParts, err error) {
	watch, err := s.sendCapture(append([][]byte{[]byte("WATCH")}, keys...)...)
	if err != nil {
		return o, found, err
	}
	if s.tracking {
		if err := s.await(watch); err != nil {
			return o, found, err
		}
		found = s.probeBeside(keys)
		return refusalOf(watch), found, s.learnExpiries(&found)
	}
	probes := make([]*op, len(keys))
	for i, k := range keys {
		if probes[i], err = s.sendCapture(getRange, k, zero, magicEnd); err != nil {
			return o, found, err
		}
	}
	if err := s.await(probes[len(probes)-1]); err != nil {
		return o, found, err
	}
	if o = refusalOf(watch); o.refusal != "" {
		return o, found, nil
	}
	for i, k := range keys {
		if err := s.readSealed(&found, k, &probes[i].answer); err != nil {
			return o, found, err
		}
	}
	if found.err == nil && isNoRight(found.unseen) { // the second connection has other rights
		found = s.probeBeside(keys)
	}
	return o, found, s.learnExpiries(&found)
}

func refusalOf(watch *op) (o watchOutcome) {
	if watch.answer.isError() {
		o.refusal = watch.answer.text
	}
	return o
}

var (
	getRange = []byte("GETRANGE")
	zero     = []byte("0")
	magicEnd = []byte("2") // last index of the magic
)

// sendCapture sends a request whose reply is kept; await its op before looking.
func (s *session) sendCapture(args ...[]byte) (*op, error) {
	o := &op{done: make(chan struct{})}
	if err := s.expect(entry{kind: kindCapture, op: o}); err != nil {
		return nil, err
	}
	return o, s.send(args)
}

// readSealed adds the sealed values of a watched key, given what GETRANGE said of it.
func (s *session) readSealed(found *sealedParts, key []byte, probe *answer) error {
	switch {
	case cinch.IsSealed(probe.body):
		o, err := s.askBytes([]byte("GET"), key)
		if err != nil {
			return err
		}
		found.hidden(o.answer.text, o.answer.isError())
		found.add(s, key, nil, o.answer.body)
		s.letGo(o)
	case isWrongType(probe.text):
		if s.rules().MayHoldHash(s.where(), key) {
			return s.readFields(found, key)
		}
	default:
		found.hidden(probe.text, probe.isError())
	}
	return nil
}

// readFields adds the sealed fields of a key that is no string.
func (s *session) readFields(found *sealedParts, key []byte) error {
	o, err := s.askBytes(s.sealedFields(key)...)
	if err == nil && isNoLua(o.answer.text) {
		s.lua.denied = true
		o, err = s.askBytes(s.sealedFields(key)...)
	}
	if err != nil {
		return err
	}
	if o.answer.cut || len(o.answer.list) > 2*maxSealedFields {
		found.fail(errHashTooLarge)
	}
	found.hidden(o.answer.text, o.answer.isError() && !isWrongType(o.answer.text)) // a list, say
	found.addHash(s, key, o.answer.list)
	s.letGo(o)
	return nil
}

// isWrongType matches the server's complaint about the kind of a key, of a script's command too.
func isWrongType(text string) bool { return strings.Contains(text, "WRONGTYPE ") }

// hidden notes that a key can't be looked at, if so it is.
func (f *sealedParts) hidden(text string, is bool) {
	if is && f.unseen == "" {
		f.unseen = text
	}
}

// maxSealedFields is how many sealed fields of a hash are put back for one command.
const maxSealedFields = 10_000

var errHashTooLarge = fmt.Errorf("%w: the hash holds more sealed fields than are put back at once", cinch.ErrTooLarge)

// sealedFields asks for the sealed fields of a hash, or for all of them where the user may
// run no scripts.
func (s *session) sealedFields(key []byte) [][]byte {
	if s.lua.denied {
		return [][]byte{[]byte("HGETALL"), key}
	}
	return lua.CallSealedFields(key, maxSealedFields)
}

func (s *session) askBytes(args ...[]byte) (*op, error) {
	o, err := s.sendCapture(args...)
	if err != nil {
		return nil, err
	}
	return o, s.await(o)
}

// add opens one envelope; anything else needs no putting back.
func (f *sealedParts) add(s *session, key, field, stored []byte) {
	if !cinch.IsSealed(stored) || f.err != nil {
		return
	}
	kv, err := s.openHeld(stored)
	if err != nil {
		f.err = err
		return
	}
	f.parts = append(f.parts, part{key: bytes.Clone(key), field: field, Known: kv})
}

func (f *sealedParts) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *sealedParts) addHash(s *session, key []byte, pairs [][]byte) {
	for i := 0; i+1 < len(pairs); i += 2 {
		f.add(s, key, pairs[i], pairs[i+1])
	}
}

// execUnit runs the transaction; done is false when a key was changed meanwhile.
func (s *session) execUnit(r *request, keys [][]byte, parts []part) (done bool, err error) {
	if ok, err := s.beginUnit(); err != nil || !ok {
		return true, s.unitDenied(r, keys, err)
	}
	s.asks.inside = true
	queued, err := s.sendParts(parts)
	if err != nil {
		return false, err
	}
	puts := len(queued)
	cmd, err := s.sendCapture(r.args...)
	if err != nil {
		return false, err
	}
	if err := s.sendAfter(r, keys, parts); err != nil {
		return false, err
	}
	e := s.echoing(r, parts)
	if e.op == nil {
		e.op = &op{}
	}
	o := e.op
	e.kind, o.acks, o.done = kindUnit, puts, make(chan struct{})
	if err := s.ask(e, [][]byte{[]byte("EXEC")}); err != nil {
		return false, err
	}
	s.asks.inside = false
	s.letGo(o)
	if len(parts) > 0 {
		s.inflating(keys)
	}
	s.g.cfg.Stats.Guarded(r.cmd.name, unitOutcome(o, parts))
	switch {
	case o.given:
		return true, nil
	case len(parts) == 0 && strings.HasPrefix(cmd.answer.text, "OOM"):
		// A full server queues nothing, not even reads, but may run it by itself. And who
		// could seal a value now?
		return true, s.forward(r, s.echoing(r, nil))
	case o.answer.isError(): // EXECABORT: one of these says why
		return true, s.refuse(firstError(append(queued, cmd, o)))
	}
	return false, nil
}

// sendParts sends what puts the parts back.
func (s *session) sendParts(parts []part) (queued []*op, err error) {
	for i := range parts {
		for _, args := range [][][]byte{parts[i].put(parts[i].Value), parts[i].keep()} {
			if args == nil {
				continue
			}
			o, err := s.sendCapture(args...)
			if err != nil {
				return queued, err
			}
			queued = append(queued, o)
		}
	}
	return queued, nil
}

func firstError(ops []*op) string {
	for _, o := range ops {
		if o.answer.isError() {
			return o.answer.text
		}
	}
	return ""
}

// unitDenied goes on where MULTI was refused: the keys are watched no longer.
func (s *session) unitDenied(r *request, keys [][]byte, err error) error {
	if err == nil {
		_, err = s.askPlainly("UNWATCH")
	}
	if err != nil {
		return err
	}
	return s.runBeside(r, keys)
}

// sendAfter sends what follows the command in its unit: a command that only reads leaves
// values as they were, another must leave no plain value that begins with the magic.
func (s *session) sendAfter(r *request, keys [][]byte, parts []part) error {
	if r.cmd.strategy == compared {
		return s.sendRestored(parts)
	}
	if r.cmd.strategy == inflated && !r.cmd.writes {
		for i := range parts {
			if _, err := s.sendCapture(parts[i].put(parts[i].Sealed)...); err != nil {
				return err
			}
		}
		return nil
	}
	if !s.leavesMagic(r, parts) {
		return nil
	}
	_, err := s.sendCapture(s.escapeArgs(r, keys, parts)...)
	return err
}

func unitOutcome(o *op, parts []part) string {
	switch {
	case !o.given:
		return "retried"
	case len(parts) > 0:
		return "inflated"
	}
	return "plain"
}

// put is the request that puts b in the part's place.
func (p *part) put(b []byte) [][]byte {
	if p.field != nil {
		return [][]byte{[]byte("HSET"), p.key, p.field, b}
	}
	return [][]byte{[]byte("SET"), p.key, b, []byte("XX"), []byte("KEEPTTL")}
}

// leavesMagic reports that the command may leave a plain value that begins with the
// magic, which must not stay so.
func (s *session) leavesMagic(r *request, parts []part) bool {
	return !s.lua.denied && !r.unguarded && r.cmd.strategy != compared && (r.cmd.writes || s.lookalikes(r, parts) != nil)
}

// escapeArgs makes a call of escapeScript. All sealed strings of the keys have been put
// back, so whatever begins with the magic now is plain.
func (s *session) escapeArgs(r *request, keys [][]byte, parts []part) [][]byte {
	return lua.CallEscape(keys, s.lookalikes(r, parts))
}
