package redis

import (
	"strings"

	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// within runs scripts, and other commands that would run as a unit, while the client has a transaction open
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
// script.go handles the case where it has not. If there is no body (functions, unknown commands), the request
// is refused if the policy may compress its keys: it could meet an envelope.

// within runs commands while the client has a transaction open or watches keys.
type within struct {
	talk   *conversation
	user   *user
	vault  *vault
	prober *prober
}

// run runs a request that would otherwise be a unit, beside the client's transaction or WATCH.
func (w *within) run(r *request, keys [][]byte) error {
	body, known := w.bodyOf(r)
	if !known && (w.talk.tx.open || w.talk.tx.watch.on) && w.vault.mayBeSealed(w.talk.st.where(), keys) {
		return w.inside(r, keys)
	}
	found := w.prober.probe(keys)
	switch {
	case found.err != nil:
		return w.prober.broken(found.err)
	case found.unseen != "" && !known: // a script checks by itself
		return w.talk.refuse(found.unseen)
	}
	if len(found.parts)+len(w.talk.tx.known) > 0 {
		if w.user.lua.denied {
			return w.prober.over("ERR cinch: a key holds a compressed value, and decompressing it in place needs the right to run EVAL")
		}
		refusal, err := w.putBack(w.inflateArgs(keys, found.parts))
		switch {
		case err != nil:
			return err
		case refusal != "":
			return w.talk.refuse(refusal)
		}
		w.vault.inflating(keys)
	}
	if r.cmd.strategy == compared {
		return w.compare(r, &found)
	}
	var err error
	if known {
		err = w.sendComposed(r, body, keys, &found)
	} else {
		err = w.talk.forward(r, w.talk.tx.echoing(r, found.parts))
	}
	if err != nil || w.user.lua.denied || !w.talk.tx.leavesMagic(r, found.parts) {
		return err
	}
	return w.talk.sendHidden(w.talk.tx.escapeArgs(r, keys, found.parts))
}

// putBack has values decompressed in place before the client's command. Outside a transaction it waits for
// the answer: if the server refuses, the command must not run.
func (w *within) putBack(args [][]byte) (refusal string, err error) {
	if w.talk.tx.open {
		return "", w.talk.sendHidden(args)
	}
	o, err := w.talk.askBytes(args...)
	if err == nil && o.answer.isError() {
		refusal = o.answer.text
	}
	return refusal, err
}

// unknownHere returns the error for a request whose script is not known.
func unknownHere(r *request) string {
	if strings.HasPrefix(r.cmd.name, "evalsha") {
		return noScript
	}
	return "ERR cinch: inside MULTI or WATCH this command could meet a compressed value; keep it out of transactions, or exclude its keys"
}

// sendComposed sends the client's script behind the prologue. If all values were found to be uncompressed,
// keys that the user may not read are not checked; if something was decompressed in place, or could not be
// read from here either, they are.
func (w *within) sendComposed(r *request, body []byte, keys [][]byte, found *sealedParts) error {
	e := w.talk.tx.echoing(r, found.parts)
	if e.op == nil {
		e.op = &op{}
	}
	e.kind = kindAsk
	text := lua.Compose(body)
	e.op.renames = [2]string{lua.Name(text), lua.Name(body)}
	if err := w.talk.expect(e); err != nil {
		return err
	}
	clear := found.unseen == "" && len(found.parts)+len(w.talk.tx.known) == 0
	return w.talk.send(lua.CallComposed(evalFor(r.cmd.name), text, r.args[2:], e.op.plainBytes, w.vault.mayHoldHash(w.talk.st.where(), keys), clear))
}

// inflateArgs returns the call that decompresses the parts, and the values set in the transaction, in place.
func (w *within) inflateArgs(keys [][]byte, parts []part) [][]byte {
	back := make([]lua.Known, 0, len(parts)+len(w.talk.tx.known))
	for i := range parts {
		back = append(back, parts[i].Known)
	}
	var hashes [][]byte
	for _, k := range keys {
		if w.vault.rules().MayHoldHash(w.talk.st.where(), k) {
			hashes = append(hashes, k)
		}
	}
	return lua.CallInflate(keys, hashes, append(back, w.talk.tx.known...))
}

// bodyOf returns the text of the script that a request runs, if it is known or the server returns it.
func (w *within) bodyOf(r *request) ([]byte, bool) {
	switch r.cmd.name {
	case "eval", "eval_ro":
		return r.args[1], true
	case "evalsha", "evalsha_ro":
		return w.user.second.body(r.args[1])
	}
	return nil, false
}

// compare runs a comparison for a user who may not open transactions. The values found have been decompressed
// in place.
func (w *within) compare(r *request, found *sealedParts) error {
	if err := w.talk.forward(r, entry{}); err != nil {
		return err
	}
	for i := range found.parts {
		if err := w.talk.sendHidden(found.parts[i].restored()); err != nil {
			return err
		}
	}
	return nil
}

// inside runs a request that could meet an envelope while the client's own WATCH or MULTI prevents a unit:
// the values of its keys may change before the server runs it. It is sent if that makes no difference, and
// refused otherwise.
func (w *within) inside(r *request, keys [][]byte) error {
	if strings.HasPrefix(r.cmd.name, "evalsha") { // the client then sends EVAL or loads it
		return w.talk.refuse(unknownHere(r))
	}
	types, err := w.prober.typesOf(keys)
	switch {
	case err != nil:
		return w.talk.refuse("ERR cinch: can't read the keys: " + err.Error())
	case !w.talk.tx.brings && ofModules(types):
		return w.talk.forward(r, w.talk.tx.echoing(r, nil))
	}
	found := w.prober.probe(keys)
	switch {
	case found.err != nil:
		return w.prober.broken(found.err)
	case found.unseen != "":
		return w.talk.refuse(found.unseen)
	case len(found.parts) == 0 && w.talk.tx.open && !w.talk.tx.brings && w.talk.tx.watch.covers(w.talk.st.where(), keys):
		return w.talk.forward(r, w.talk.tx.echoing(r, nil)) // EXEC is aborted if they change from here on
	case r.cmd.strategy == unknown && w.user.mayEval() && len(r.args) < lua.MaxArgs:
		return w.wrap(r, keys)
	}
	return w.prober.over(unknownHere(r))
}

// wrap runs a command in a script that checks the keys in the same step.
func (w *within) wrap(r *request, keys [][]byte) error {
	body := "return redis.pcall(unpack(ARGV))"
	if w.talk.st.version.Load() == 3 {
		body = "redis.setresp(3) " + body
	}
	args := append([][]byte{[]byte("EVAL"), []byte(body), itoa(len(keys))}, keys...)
	return w.run(&request{cmd: wrapped, args: append(args, r.args...)}, keys)
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
