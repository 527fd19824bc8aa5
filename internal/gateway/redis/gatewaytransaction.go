package redis

import (
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// A unit runs one command on keys whose compressed values are decompressed in place first. It needs no Lua
// and works for any command: scripts, functions, and commands that the table does not know.
//
//	WATCH keys                  EXEC fails if one of them changes from here on
//	GETRANGE key 0 2 …          which are compressed?
//	GET key …                   their envelopes
//	MULTI
//	SET key value XX KEEPTTL …
//	the command                 its reply goes to the client
//	EXEC                        null: a key was changed, so start again
//
// The client must have no WATCH or MULTI of its own on the connection; nestedUnits handles that case.

// units runs commands as units.
type units struct {
	upstream *upstreamWriter
	user     *user
	codec    *valueCodec
	prober   *keyProber
	nested   *nestedUnits
}

// maxUnitTries limits the retries when writers change the keys.
const maxUnitTries = 64

// run runs a command as a unit, or beside the client's own transaction.
func (u *units) run(r *request, keys [][]byte) error {
	if u.upstream.tx.open || u.upstream.tx.watch.on || u.user.units.denied {
		return u.nested.run(r, keys)
	}
	for range maxUnitTries {
		refusal, sealed, err := u.watchKeys(keys)
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(refusal, "NOPERM"):
			u.user.units.asked, u.user.units.denied = true, true
			return u.nested.run(r, keys)
		case cluster.IsRedirectOrRetry(refusal): // if the slot returns, a forwarded command would run unguarded
			return u.upstream.refuse(refusal)
		case refusal != "": // the command itself will be refused for the same reason
			return u.upstream.forward(r, u.upstream.tx.echoEntry(r, nil))
		}
		if sealed.err != nil || sealed.unreadable != "" {
			return u.abort(&sealed)
		}
		if r.unguarded && beginsWithMagic(sealed.parts) { // nothing would wrap it afterwards
			sealed.unreadable = "ERR cinch: the value begins like an envelope; changing it needs the right to run EVAL on its key"
			return u.abort(&sealed)
		}
		done, err := u.exec(r, keys, sealed.parts)
		if err != nil || done {
			return err
		}
	}
	return u.upstream.refuse("ERR cinch: other clients kept changing the keys; try again")
}

// abort ends a unit when a value cannot be decompressed, or cannot be read and so may be compressed.
func (u *units) abort(found *sealedParts) error {
	if _, err := u.upstream.query("UNWATCH"); err != nil {
		return err
	}
	if found.err != nil {
		return u.prober.refuseCorrupt(found.err)
	}
	return u.upstream.refuse(found.unreadable)
}

// begin sends MULTI. The first time it waits for the answer. ok is false if the user may not open
// transactions; none is open then.
func (u *units) begin() (ok bool, err error) {
	o, err := u.upstream.sendCapture([]byte("MULTI"))
	if err != nil || u.user.units.asked {
		return err == nil, err
	}
	if err := u.upstream.await(o); err != nil {
		return false, err
	}
	u.user.units.asked, u.user.units.denied = true, o.answer.isError()
	return !u.user.units.denied, nil
}

// watchKeys watches the keys and returns those of their values that are compressed. refusal is the server's error to
// WATCH. For a client with tracking it reads the values on the second connection, which has no client-side cache.
func (u *units) watchKeys(keys [][]byte) (refusal string, found sealedParts, err error) {
	watch, err := u.upstream.sendCapture(append([][]byte{[]byte("WATCH")}, keys...)...)
	if err != nil {
		return "", found, err
	}
	if u.user.tracking.Load() {
		if err := u.upstream.await(watch); err != nil || watch.answer.isError() {
			return watch.answer.text, found, err
		}
		found = u.prober.probe(keys)
		return "", found, u.learnExpiries(&found)
	}
	probes := make([]*entryData, len(keys))
	for i, k := range keys {
		if probes[i], err = u.upstream.sendCapture(getRange, k, zero, magicEnd); err != nil {
			return "", found, err
		}
	}
	if err := u.upstream.await(probes[len(probes)-1]); err != nil {
		return "", found, err
	}
	if watch.answer.isError() {
		return watch.answer.text, found, nil
	}
	for i, k := range keys {
		if err := u.readSealed(&found, k, &probes[i].answer); err != nil {
			return "", found, err
		}
	}
	if found.err == nil && isNoRight(found.unreadable) { // the second connection has other rights
		found = u.prober.probe(keys)
	}
	return "", found, u.learnExpiries(&found)
}

var (
	getRange = []byte("GETRANGE")
	zero     = []byte("0")
	magicEnd = []byte("2") // index of the magic's last byte
)

// readSealed adds the compressed values of a watched key, given its reply to GETRANGE.
func (u *units) readSealed(found *sealedParts, key []byte, probe *answer) error {
	switch {
	case envelope.IsSealed(probe.body):
		o, err := u.upstream.queryBytes([]byte("GET"), key)
		if err != nil {
			return err
		}
		if o.answer.isError() {
			found.setUnreadable(o.answer.text)
		}
		found.add(u.prober.decoded, key, nil, o.answer.body)
		u.upstream.release(o)
	case isWrongType(probe.text):
		if u.codec.rules().MayHoldHash(u.upstream.state.database(), key) {
			return u.readFields(found, key)
		}
	case probe.isError():
		found.setUnreadable(probe.text)
	}
	return nil
}

// readFields adds the compressed fields of a key that is not a string.
func (u *units) readFields(found *sealedParts, key []byte) error {
	o, err := u.upstream.queryBytes(u.sealedFields(key)...)
	if err == nil && isNoLua(o.answer.text) {
		u.user.lua.denied = true
		o, err = u.upstream.queryBytes(u.sealedFields(key)...)
	}
	if err != nil {
		return err
	}
	if o.answer.truncated || len(o.answer.list) > 2*maxSealedFields {
		found.fail(errHashTooLarge)
	}
	if o.answer.isError() && !isWrongType(o.answer.text) { // of the wrong type is, for example, a list
		found.setUnreadable(o.answer.text)
	}
	found.addHash(u.prober.decoded, key, o.answer.list)
	u.upstream.release(o)
	return nil
}

// sealedFields returns a request for the compressed fields of a hash, or for all fields if the user may run
// no scripts.
func (u *units) sealedFields(key []byte) [][]byte {
	if u.user.lua.denied {
		return [][]byte{[]byte("HGETALL"), key}
	}
	return lua.CallSealedFields(key, maxSealedFields)
}

// exec runs the transaction; done is false if a key was changed meanwhile.
func (u *units) exec(r *request, keys [][]byte, parts []part) (done bool, err error) {
	if ok, err := u.begin(); err != nil || !ok {
		return true, u.runDenied(r, keys, err)
	}
	u.upstream.asking.inTransaction = true
	queued, err := u.sendParts(parts)
	if err != nil {
		return false, err
	}
	puts := len(queued)
	cmd, err := u.upstream.sendCapture(r.args...)
	if err != nil {
		return false, err
	}
	if err := u.sendAfter(r, keys, parts); err != nil {
		return false, err
	}
	e := u.upstream.tx.echoEntry(r, parts)
	if e.data == nil {
		e.data = &entryData{}
	}
	o := e.data
	e.kind, o.acks, o.done = kindUnit, puts, make(chan struct{})
	if err := u.upstream.ask(e, [][]byte{[]byte("EXEC")}); err != nil {
		return false, err
	}
	u.upstream.asking.inTransaction = false
	u.upstream.release(o)
	if len(parts) > 0 {
		u.codec.countInflated(keys)
	}
	u.codec.Stats.Guarded(r.cmd.name, unitOutcome(o, parts))
	switch {
	case o.delivered:
		return true, nil
	case len(parts) == 0 && strings.HasPrefix(cmd.answer.text, "OOM"):
		// A server out of memory queues nothing, not even reads, but may run the command by itself. No client
		// can store an envelope meanwhile.
		return true, u.upstream.forward(r, u.upstream.tx.echoEntry(r, nil))
	case o.answer.isError(): // EXECABORT: one of the earlier errors is the reason
		return true, u.upstream.refuse(firstError(append(queued, cmd, o)))
	}
	return false, nil
}

// sendParts sends the requests that decompress the parts in place.
func (u *units) sendParts(parts []part) (queued []*entryData, err error) {
	for i := range parts {
		for _, args := range [][][]byte{parts[i].put(parts[i].Value), parts[i].keepExpiry()} {
			if args == nil {
				continue
			}
			o, err := u.upstream.sendCapture(args...)
			if err != nil {
				return queued, err
			}
			queued = append(queued, o)
		}
	}
	return queued, nil
}

func firstError(ops []*entryData) string {
	for _, o := range ops {
		if o.answer.isError() {
			return o.answer.text
		}
	}
	return ""
}

// runDenied continues after MULTI was refused. It ends WATCH.
func (u *units) runDenied(r *request, keys [][]byte, err error) error {
	if err == nil {
		_, err = u.upstream.query("UNWATCH")
	}
	if err != nil {
		return err
	}
	return u.nested.run(r, keys)
}

// sendAfter sends the requests that follow the command in its unit. After a command that only reads, they
// restore the envelopes; after others they wrap plain values that begin with the magic.
func (u *units) sendAfter(r *request, keys [][]byte, parts []part) error {
	// SET with IFEQ restores the envelopes of the values that are still there. A server with these commands has IFEQ.
	if r.cmd.strategy == compared {
		for i := range parts {
			if _, err := u.upstream.sendCapture(parts[i].restoreRequest()...); err != nil {
				return err
			}
		}
		return nil
	}
	if r.cmd.strategy == inflated && !r.cmd.writes {
		for i := range parts {
			if _, err := u.upstream.sendCapture(parts[i].put(parts[i].Sealed)...); err != nil {
				return err
			}
		}
		return nil
	}
	if u.user.lua.denied || !u.upstream.tx.mayLeaveMagic(r, parts) {
		return nil
	}
	_, err := u.upstream.sendCapture(u.upstream.tx.escapeArgs(r, keys, parts)...)
	return err
}

func unitOutcome(o *entryData, parts []part) string {
	switch {
	case !o.delivered:
		return "retried"
	case len(parts) > 0:
		return "inflated"
	}
	return "plain"
}

// learnExpiries finds out when the fields among the parts expire. The keys are watched, so this stays true
// until the fields have been decompressed in place.
func (u *units) learnExpiries(found *sealedParts) error {
	for parts := found.parts; len(parts) > 0; {
		n := sameHash(parts)
		if parts[0].field != nil && !u.user.units.noFieldExpiry {
			if err := u.learnExpiriesOf(found, parts[:n]); err != nil {
				return err
			}
		}
		parts = parts[n:]
	}
	return nil
}

func (u *units) learnExpiriesOf(found *sealedParts, parts []part) error {
	if u.user.tracking.Load() { // the server would count the key as read by the client
		u.learnExpiriesOnSideConn(found, parts)
		return nil
	}
	o, err := u.upstream.queryBytes(expiryQuestion(parts)...)
	if err != nil {
		return err
	}
	switch {
	case isUnknownCommand(o.answer.text):
		u.user.units.noFieldExpiry = true
	case isNoRight(o.answer.text):
		u.learnExpiriesOnSideConn(found, parts)
	case o.answer.isError():
		found.setUnreadable(o.answer.text)
	default:
		setExpiries(parts, o.answer.list)
	}
	return nil
}

// learnExpiriesOnSideConn asks on the second connection, or as the gateway's own user.
func (u *units) learnExpiriesOnSideConn(found *sealedParts, parts []part) {
	p, end := u.prober.newProbe()
	defer end()
	words := expiryQuestion(parts)
	question := make([]any, len(words))
	for i, w := range words {
		question[i] = w
	}
	reply, err := p.ask(question...)
	switch list, _ := reply.([]any); {
	case err == nil:
		times := make([][]byte, len(list))
		for i := range list {
			n, _ := list[i].(int64)
			times[i] = strconv.AppendInt(nil, n, 10)
		}
		setExpiries(parts, times)
	case isUnknownCommand(err.Error()):
		u.user.units.noFieldExpiry = true
	default:
		p.setUnreadable(err)
		found.setUnreadable(p.found.unreadable)
	}
}
