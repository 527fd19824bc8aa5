package redis

import (
	"slices"
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
//	EVAL escapeScript keys          hidden, when it may be needed
//
// Users who may not run WATCH and MULTI have their commands run this way too.
//
// A body is known from EVAL, or from the SCRIPT LOAD or EVAL that this gateway has seen
// before an EVALSHA; bodies.go says what happens where it has not. Where there is no body (functions, unknown commands), the request is
// refused if the policy may seal its keys: it could meet an envelope.

// runBeside runs a request that would be a unit beside the client's transaction or WATCH.
func (s *session) runBeside(r *request, keys [][]byte) error {
	body, known := s.bodyOf(r)
	if !known && (s.tx.open || s.watched) && s.mayBeSealed(keys) {
		return s.runInside(r, keys)
	}
	found := s.probeBeside(keys)
	switch {
	case found.err != nil:
		return s.refuseBroken(found.err)
	case found.unseen != "" && !known: // its own script would look
		return s.refuse(found.unseen)
	}
	if len(found.parts)+len(s.tx.known) > 0 {
		if s.lua.denied {
			return s.refuseFor("ERR cinch: a key is sealed, and putting it back here needs the right to run EVAL")
		}
		if refusal, err := s.putBack(s.inflateArgs(keys, found.parts)); err != nil || refusal != "" {
			return s.refuseUnless(err, refusal)
		}
		s.inflating(keys)
	}
	if r.cmd.strategy == compared {
		return s.compareBeside(r, &found)
	}
	var err error
	if known {
		err = s.sendComposed(r, body, keys, &found)
	} else {
		err = s.forward(r, s.echoing(r, found.parts))
	}
	if err != nil || !s.leavesMagic(r, found.parts) {
		return err
	}
	return s.sendHidden(s.escapeArgs(r, keys, found.parts))
}

// putBack has values put back before the client's command. Outside a transaction it waits: where the
// server refuses that, the command must not run.
func (s *session) putBack(args [][]byte) (refusal string, err error) {
	if s.tx.open {
		return "", s.sendHidden(args)
	}
	o, err := s.askBytes(args...)
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

func (s *session) refuseUnless(err error, text string) error {
	if err != nil {
		return err
	}
	return s.refuse(text)
}

func (s *session) mayBeSealed(keys [][]byte) bool {
	for _, k := range keys {
		if s.rules().MaySeal(s.where(), k) {
			return true
		}
	}
	return false
}

// sendHidden sends a request of ours whose reply the client does not see.
func (s *session) sendHidden(args [][]byte) error {
	if err := s.expect(entry{flags: flagHidden}); err != nil {
		return err
	}
	return s.send(args)
}

// sendComposed sends the client's script behind the prologue. If all was found to be plain it need not see what the user
// may not look at; if something had to be put back, or could not be seen from here either, it has to.
func (s *session) sendComposed(r *request, body []byte, keys [][]byte, found *sealedParts) error {
	e := s.echoing(r, found.parts)
	if e.op == nil {
		e.op = &op{}
	}
	e.kind = kindAsk
	text := lua.Compose(body)
	e.op.renames = [2]string{lua.Name(text), lua.Name(body)}
	if err := s.expect(e); err != nil {
		return err
	}
	clear := found.unseen == "" && len(found.parts)+len(s.tx.known) == 0
	return s.send(lua.CallComposed(evalFor(r.cmd.name), text, r.args[2:], e.op.plainBytes, s.mayHoldHash(keys), clear))
}

// mayHoldHash reports whether a hash among the keys may hold envelopes.
func (s *session) mayHoldHash(keys [][]byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return s.rules().MayHoldHash(s.where(), k) })
}

func evalFor(name string) string {
	if len(name) > 3 && name[len(name)-3:] == "_ro" {
		return "EVAL_RO"
	}
	return "EVAL"
}

// inflateArgs makes the call that puts the parts, and what was set in the transaction, back.
func (s *session) inflateArgs(keys [][]byte, parts []part) [][]byte {
	back := make([]lua.Known, 0, len(parts)+len(s.tx.known))
	for i := range parts {
		back = append(back, parts[i].Known)
	}
	var hashes [][]byte
	for _, k := range keys {
		if s.rules().MayHoldHash(s.where(), k) {
			hashes = append(hashes, k)
		}
	}
	return lua.CallInflate(keys, hashes, append(back, s.tx.known...))
}
