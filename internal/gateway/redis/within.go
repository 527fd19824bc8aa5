package redis

import (
	"strings"

	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// Scripts, and what else would run as a unit, while the client has a transaction open or
// watches keys: WATCH and MULTI on its connection are taken then. What is sealed is read on
// the second connection and put back by a script in front of the client's command. Another
// client may seal a new value before that runs. So the client's script itself gets a
// first line that looks at the keys and ends it at an envelope:
//
//	EVAL lua.Inflate keys …       its reply is hidden from the client
//	EVAL prologue+body keys args …  its reply is the client's, or an error of ours
//	EVAL lua.Escape keys            hidden, when it may be needed
//
// Users who may not run WATCH and MULTI have their commands run this way too.
//
// A body is known from EVAL, or from the SCRIPT LOAD or EVAL that this gateway has seen
// before an EVALSHA; script.go says what happens where it has not. Where there is no body (functions, unknown commands), the request is
// refused if the policy may seal its keys: it could meet an envelope.

// within runs commands while the client has a transaction open, or watches keys.
type within struct {
	talk   *conversation
	user   *user
	vault  *vault
	prober *prober
}

// run runs a request that would be a unit beside the client's transaction or WATCH.
func (w *within) run(r *request, keys [][]byte) error {
	body, known := w.bodyOf(r)
	if !known && (w.talk.tx.open || w.talk.tx.watch.on) && w.vault.mayBeSealed(w.talk.st.where(), keys) {
		return w.inside(r, keys)
	}
	found := w.prober.probe(keys)
	switch {
	case found.err != nil:
		return w.prober.broken(found.err)
	case found.unseen != "" && !known: // its own script would look
		return w.talk.refuse(found.unseen)
	}
	if len(found.parts)+len(w.talk.tx.known) > 0 {
		if w.user.lua.denied {
			return w.prober.over("ERR cinch: a key is sealed, and putting it back here needs the right to run EVAL")
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

// putBack has values put back before the client's command. Outside a transaction it waits: where the
// server refuses that, the command must not run.
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

// unknownHere says why a request whose text is not known is refused.
func unknownHere(r *request) string {
	if strings.HasPrefix(r.cmd.name, "evalsha") {
		return noScript
	}
	return "ERR cinch: inside MULTI or WATCH this command could meet a sealed value; keep it out of transactions, or exclude its keys"
}

// sendComposed sends the client's script behind the prologue. If all was found to be plain it need not see what the user
// may not look at; if something had to be put back, or could not be seen from here either, it has to.
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

// inflateArgs makes the call that puts the parts, and what was set in the transaction, back.
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

// bodyOf is the text of the script that a request runs, where it is known or the server tells.
func (w *within) bodyOf(r *request) ([]byte, bool) {
	switch r.cmd.name {
	case "eval", "eval_ro":
		return r.args[1], true
	case "evalsha", "evalsha_ro":
		return w.user.second.body(r.args[1])
	}
	return nil, false
}

// compare runs a comparison of a user who may not open transactions, for which what was found has
// been put back.
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

// inside runs a request that could meet a sealed value where the client's own WATCH or MULTI is in
// the way of a unit: what is found at its keys now may be another value when the server carries it
// out. It is sent where that makes no difference, and refused elsewhere.
func (w *within) inside(r *request, keys [][]byte) error {
	if strings.HasPrefix(r.cmd.name, "evalsha") { // the client loads it again
		return w.talk.refuse(unknownHere(r))
	}
	types, err := w.prober.typesOf(keys)
	switch {
	case err != nil:
		return w.talk.refuse("ERR cinch: can't look at the keys: " + err.Error())
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
		return w.talk.forward(r, w.talk.tx.echoing(r, nil)) // EXEC is aborted when they change from here on
	case r.cmd.strategy == unknown && w.user.mayEval() && len(r.args) < lua.MaxArgs:
		return w.wrap(r, keys)
	}
	return w.prober.over(unknownHere(r))
}

// wrap runs a command in a script, which looks at the keys in the same step.
func (w *within) wrap(r *request, keys [][]byte) error {
	body := "return redis.pcall(unpack(ARGV))"
	if w.talk.st.version.Load() == 3 {
		body = "redis.setresp(3) " + body
	}
	args := append([][]byte{[]byte("EVAL"), []byte(body), itoa(len(keys))}, keys...)
	return w.run(&request{cmd: wrapped, args: append(args, r.args...)}, keys)
}

// noScript is the answer to EVALSHA where its text is needed and not known here: what begins so makes
// clients load the script again, or send EVAL.
const noScript = "NOSCRIPT No matching script at this gateway, which needs its text inside MULTI or WATCH, where the keys may be sealed. Please load it again or use EVAL, or exclude the keys."

// ofModules reports that all keys have types of modules. What works on such a key complains of
// the type of one that holds a value.
func ofModules(types []string) bool {
	for _, t := range types {
		switch t {
		case "none", "string", "hash", "list", "set", "zset", "stream":
			return false
		}
	}
	return len(types) > 0
}
