package redis

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch"
)

// Scripts, and what else would run as a unit, while the client has a transaction open or
// watches keys: WATCH and MULTI on its connection are taken then. What is sealed is read on
// the second connection and put back by a script in front of the client's command. Another
// client may seal a new value before that runs. So the client's script itself gets a
// first line that looks at the keys and ends it at an envelope:
//
//	EVAL inflateScript keys …       its reply is hidden from the client
//	EVAL prologue+body keys args …  its reply is the client's, or an error of ours
//	EVAL escapeScript keys          hidden, when it may be needed
//
// Users who may not run WATCH and MULTI have their commands run this way too.
//
// A body is known from EVAL, or from the SCRIPT LOAD or EVAL that this gateway has seen
// before an EVALSHA; bodies.go says what happens where it has not. Where there is no body (functions, unknown commands), the request is
// refused if the policy may seal its keys: it could meet an envelope.

// inflateScript puts known values back: KEYS; ARGV: how many of the keys are strings (the
// rest are hashes), then envelope and value of each.
const inflateScript = putFieldLua + `local n,known=tonumber(ARGV[1]),{} local function sealed(v) return type(v)=='string' and known[v] end
for i=2,#ARGV,2 do known[ARGV[i]]=ARGV[i+1] end
local function hidden(v) return type(v)=='table' and v.err and string.sub(v.err,1,9)~='WRONGTYPE' end
for i,k in ipairs(KEYS) do if i<=n then local v=redis.pcall('GET',k) if hidden(v) then return v end
if sealed(v) then redis.call('SET',k,known[v],'KEEPTTL') end
else local h=redis.pcall('HGETALL',k) if hidden(h) then return h end if not h.err then for j=1,#h,2 do
if sealed(h[j+1]) then local e=putfield(k,h[j],known[h[j+1]]) if e then return e end end end end end end
return 1`

// prologue stands in front of a client's script, on the same line so that line numbers in
// its errors stay. It takes its own arguments off the end of ARGV: the magic, plain values
// that begin with it, their number, whether hashes may hold envelopes, and whether what the user may not
// look at is known to be plain.
var prologue = `do local A=ARGV local function pop() local v=A[#A] A[#A]=nil return v end ` +
	`local clear,hashes,n,plain=pop()=='1',pop(),tonumber(pop()),{} for i=1,n do plain[pop()]=true end local m=pop() ` +
	`local function sealed(v) return type(v)=='string' and string.sub(v,1,#m)==m and not plain[v] end ` +
	lookOneLine +
	`for _,k in ipairs(KEYS) do local s,hidden,other=look(k) if hidden and not clear then return hidden end ` +
	`if s and sealed(redis.call('GET',k)) then return {` + luaMarker + `,k} end ` +
	`if other and hashes=='1' then local v=redis.pcall('HVALS',k) if not v.err then ` +
	`for _,x in ipairs(v) do if sealed(x) then return {` + luaMarker + `,k} end end ` +
	`elseif not clear and string.sub(v.err,1,9)~='WRONGTYPE' then return v end end end end `

var lookOneLine = strings.ReplaceAll(lookLua, "\n", " ")

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
	text := compose(body)
	e.op.renames = [2]string{shaOf(text), shaOf(body)}
	if err := s.expect(e); err != nil {
		return err
	}
	call := append([][]byte{[]byte(evalFor(r.cmd.name)), text}, r.args[2:]...)
	call = append(call, []byte(cinch.Magic))
	call = append(call, e.op.plainBytes...)
	plain := found.unseen == "" && len(found.parts)+len(s.tx.known) == 0
	return s.send(append(call, itoa(len(e.op.plainBytes)), s.hashFlag(keys), luaFlag(plain)))
}

// hashFlag tells a script whether a hash among the keys may hold envelopes.
func (s *session) hashFlag(keys [][]byte) []byte {
	return luaFlag(slices.ContainsFunc(keys, func(k []byte) bool { return s.rules().MayHoldHash(s.where(), k) }))
}

func luaFlag(on bool) []byte {
	if on {
		return []byte("1")
	}
	return []byte("0")
}

func evalFor(name string) string {
	if len(name) > 3 && name[len(name)-3:] == "_ro" {
		return "EVAL_RO"
	}
	return "EVAL"
}

// compose puts the prologue in front of a script, behind its shebang line if it has one.
func compose(body []byte) []byte {
	at := 0
	if bytes.HasPrefix(body, []byte("#!")) {
		if at = bytes.IndexByte(body, '\n') + 1; at == 0 {
			at = len(body)
		}
	}
	text := make([]byte, 0, len(body)+len(prologue))
	text = append(text, body[:at]...)
	text = append(text, prologue...)
	return append(text, body[at:]...)
}

func shaOf(script []byte) string {
	sum := sha1.Sum(script) // the name that Redis gives to scripts
	return hex.EncodeToString(sum[:])
}

// inflateArgs makes a call of inflateScript. A key may be looked at as a string and as a
// hash; it is one of them.
func (s *session) inflateArgs(keys [][]byte, parts []part) [][]byte {
	pairs := [][]byte{itoa(len(keys))}
	for i := range parts {
		pairs = append(pairs, parts[i].sealed, parts[i].value)
	}
	for _, k := range s.tx.known {
		pairs = append(pairs, k.sealed, k.value)
	}
	all := append([][]byte(nil), keys...)
	for _, k := range keys {
		if s.rules().MayHoldHash(s.where(), k) {
			all = append(all, k)
		}
	}
	call := [][]byte{[]byte("EVAL"), []byte(inflateScript), itoa(len(all))}
	return append(append(call, all...), pairs...)
}
