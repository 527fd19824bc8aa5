package redis

import (
	"strings"

	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// nestedUnits runs scripts, and other commands that would run as a unit, while the client has a transaction open
// or watches keys, so that WATCH and MULTI on its connection are in use. Compressed values are read on the
// second connection and decompressed in place by a script in front of the client's command. Another client
// may store a new envelope before that runs, so the client's script itself gets a first line that checks the
// keys and stops at an envelope:
//
//	EVAL lua.Inflate keys …       its reply is hidden from the client
//	EVAL prologue+body keys args …  its reply is the client's, or an error of the gateway
//	EVAL lua.Escape keys            hidden, if it may be needed
//
// Commands of users who may not run WATCH and MULTI are run this way too.
//
// A body is known from EVAL, or from a SCRIPT LOAD or EVAL that this gateway has seen before an EVALSHA;
// scriptcommands.go handles the case where it has not. If there is no body (functions, unknown commands), the request
// is refused if the policy may compress its keys: it could meet an envelope.

// nestedUnits runs commands while the client has a transaction open or watches keys.
type nestedUnits struct {
	upstream *upstreamWriter
	user     *user
	codec    *valueCodec
	prober   *keyProber
}

// run runs a request that would otherwise be a unit, while the client's transaction or WATCH stays open.
func (w *nestedUnits) run(r *request, keys [][]byte) error {
	body, known := w.bodyOf(r)
	if !known && (w.upstream.tx.open || w.upstream.tx.watch.on) && w.codec.mayBeSealed(w.upstream.state.database(), keys) {
		return w.runIfSafe(r, keys)
	}
	found := w.prober.probe(keys)
	switch {
	case found.err != nil:
		return w.prober.refuseCorrupt(found.err)
	case found.unreadable != "" && !known: // a known script checks the keys in its prologue
		return w.upstream.refuse(found.unreadable)
	}
	if len(found.parts)+len(w.upstream.tx.known) > 0 {
		if w.user.lua.denied {
			return w.prober.refuse("ERR cinch: a key holds a compressed value, and decompressing it in place needs the right to run EVAL")
		}
		refusal, err := w.inflate(w.inflateArgs(keys, found.parts))
		switch {
		case err != nil:
			return err
		case refusal != "":
			return w.upstream.refuse(refusal)
		}
		w.codec.countInflated(keys)
	}
	if r.cmd.strategy == compared {
		return w.compare(r, &found)
	}
	var err error
	if known {
		err = w.sendComposed(r, body, keys, &found)
	} else {
		err = w.upstream.forward(r, w.upstream.tx.echoEntry(r, found.parts))
	}
	if err != nil || w.user.lua.denied || !w.upstream.tx.mayLeaveMagic(r, found.parts) {
		return err
	}
	return w.upstream.sendHidden(w.upstream.tx.escapeArgs(r, keys, found.parts))
}

// inflate sends the request that decompresses values in place before the client's command. Outside a transaction it
// waits for the answer: if the server refuses, the command must not run.
func (w *nestedUnits) inflate(args [][]byte) (refusal string, err error) {
	if w.upstream.tx.open {
		return "", w.upstream.sendHidden(args)
	}
	o, err := w.upstream.queryBytes(args...)
	if err == nil && o.answer.isError() {
		refusal = o.answer.text
	}
	return refusal, err
}

// unknownScriptError returns the error for a request whose script is not known.
func unknownScriptError(r *request) string {
	if strings.HasPrefix(r.cmd.name, "evalsha") {
		return noScript
	}
	return "ERR cinch: inside MULTI or WATCH this command could meet a compressed value; keep it out of transactions, or exclude its keys"
}

// sendComposed sends the client's script behind the prologue. The prologue checks the keys that the user may not read
// only if something was decompressed in place, or could not be read from here either. Otherwise all values are known
// to be uncompressed.
func (w *nestedUnits) sendComposed(r *request, body []byte, keys [][]byte, found *sealedParts) error {
	e := w.upstream.tx.echoEntry(r, found.parts)
	if e.data == nil {
		e.data = &entryData{}
	}
	e.kind = kindAsk
	text := lua.Compose(body)
	e.data.scriptNames = [2]string{lua.Name(text), lua.Name(body)}
	if err := w.upstream.expect(e); err != nil {
		return err
	}
	clear := found.unreadable == "" && len(found.parts)+len(w.upstream.tx.known) == 0
	return w.upstream.send(lua.CallComposed(evalFor(r.cmd.name), text, r.args[2:], e.data.plainBytes, w.codec.mayHoldHash(w.upstream.state.database(), keys), clear))
}

// inflateArgs returns the call that decompresses the parts, and the values set in the transaction, in place.
func (w *nestedUnits) inflateArgs(keys [][]byte, parts []part) [][]byte {
	back := make([]lua.Known, 0, len(parts)+len(w.upstream.tx.known))
	for i := range parts {
		back = append(back, parts[i].Known)
	}
	var hashes [][]byte
	for _, k := range keys {
		if w.codec.rules().MayHoldHash(w.upstream.state.database(), k) {
			hashes = append(hashes, k)
		}
	}
	return lua.CallInflate(keys, hashes, append(back, w.upstream.tx.known...))
}

// bodyOf returns the text of the script that a request runs, if it is known or the server returns it.
func (w *nestedUnits) bodyOf(r *request) ([]byte, bool) {
	switch r.cmd.name {
	case "eval", "eval_ro":
		return r.args[1], true
	case "evalsha", "evalsha_ro":
		return w.user.sideConn.body(r.args[1])
	}
	return nil, false
}

// compare runs a comparison for a user who may not open transactions. The values found have been decompressed
// in place.
func (w *nestedUnits) compare(r *request, found *sealedParts) error {
	if err := w.upstream.forward(r, entry{}); err != nil {
		return err
	}
	for i := range found.parts {
		if err := w.upstream.sendHidden(found.parts[i].restoreRequest()); err != nil {
			return err
		}
	}
	return nil
}

// runIfSafe runs a request that could meet an envelope while the client's own WATCH or MULTI prevents a unit:
// the values of its keys may change before the server runs it. It is sent if that makes no difference, and
// refused otherwise.
func (w *nestedUnits) runIfSafe(r *request, keys [][]byte) error {
	if strings.HasPrefix(r.cmd.name, "evalsha") { // the client then sends EVAL or loads it
		return w.upstream.refuse(unknownScriptError(r))
	}
	types, err := w.prober.typesOf(keys)
	switch {
	case err != nil:
		return w.upstream.refuse("ERR cinch: can't read the keys: " + err.Error())
	case !w.upstream.tx.mayAddEnvelope && ofModules(types):
		return w.upstream.forward(r, w.upstream.tx.echoEntry(r, nil))
	}
	found := w.prober.probe(keys)
	switch {
	case found.err != nil:
		return w.prober.refuseCorrupt(found.err)
	case found.unreadable != "":
		return w.upstream.refuse(found.unreadable)
	case len(found.parts) == 0 && w.upstream.tx.open && !w.upstream.tx.mayAddEnvelope && w.upstream.tx.watch.covers(w.upstream.state.database(), keys):
		return w.upstream.forward(r, w.upstream.tx.echoEntry(r, nil)) // EXEC is aborted if they change from here on
	case r.cmd.strategy == unknown && w.user.mayEval() && len(r.args) < lua.MaxArgs:
		return w.wrap(r, keys)
	}
	return w.prober.refuse(unknownScriptError(r))
}

// wrap runs a command in a script that checks the keys in the same step.
func (w *nestedUnits) wrap(r *request, keys [][]byte) error {
	body := "return redis.pcall(unpack(ARGV))"
	if w.upstream.state.version.Load() == 3 {
		body = "redis.setresp(3) " + body
	}
	args := append([][]byte{[]byte("EVAL"), []byte(body), itoa(len(keys))}, keys...)
	return w.run(&request{cmd: wrappedScript, args: append(args, r.args...)}, keys)
}

// noScript is the answer to EVALSHA if the script's text is needed and not known here. The prefix NOSCRIPT
// makes clients load the script again, or send EVAL.
const noScript = "NOSCRIPT No matching script at this gateway, which needs the script's text inside MULTI or WATCH if the keys may hold compressed values. Please load it again or use EVAL, or exclude the keys."

// ofModules reports whether all keys have module types. A command on such a key reports a wrong type if the
// key holds a plain Redis value.
func ofModules(types []string) bool {
	for _, t := range types {
		switch t {
		case "none", "string", "hash", "list", "set", "zset", "stream":
			return false
		}
	}
	return len(types) > 0
}
