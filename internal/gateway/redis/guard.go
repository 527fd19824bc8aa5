package redis

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// The scripts that guard commands. They run under the client's identity, see the keys
// that the client named, and answer with an array of a marker and envelopes when they
// met any: then nothing has been done.
const (
	// marker begins the answers of our scripts that hand out envelopes. No stored value of
	// ours equals it, and it is longer than the magic, so a value of a client's that does
	// has been wrapped.
	marker    = cinch.Magic + "\x00cinch"
	luaMarker = `m..'\0cinch'`

	// peekScript runs a read on a plain value. KEYS[1]; ARGV: the magic, the last byte of
	// an envelope that is wanted, the command.
	peekScript = `local m,k=ARGV[1],KEYS[1] local h=redis.pcall('GETRANGE',k,0,#m-1)
if h==m then return {` + luaMarker + `,redis.call('GETRANGE',k,0,ARGV[2])} end
if type(h)=='table' and string.sub(h.err,1,9)~='WRONGTYPE' then h=redis.pcall('GET',k)
if type(h)=='table' and string.sub(h.err,1,9)~='WRONGTYPE' then return h end
if type(h)=='string' and string.sub(h,1,#m)==m then return {` + luaMarker + `,string.sub(h,1,ARGV[2]=='-1' and -1 or ARGV[2]+1)} end end
return redis.pcall(unpack(ARGV,3))`

	// peekFieldScript is peekScript for a hash field: ARGV[4] is the key, ARGV[5] the field.
	peekFieldScript = `local m,h=ARGV[1],redis.pcall('HGET',KEYS[1],ARGV[5])
if type(h)=='string' and string.sub(h,1,#m)==m then return {` + luaMarker + `,string.sub(h,1,ARGV[2]+1)} end
if type(h)=='table' and string.sub(h.err,1,9)~='WRONGTYPE' then return h end
return redis.pcall(unpack(ARGV,3))`

	// guardScript puts known values back and runs the command in the same step.
	// ARGV: the magic, the number of known values, envelope and value of each, the
	// command. Afterwards a plain value that begins with the magic is wrapped, as
	// docs/FORMAT.md asks (codec raw, CRC-32).
	guardScript = guardHead + `
for _,k in ipairs(KEYS) do if look(k) then
local v=redis.call('GET',k) ` + escapeLua + ` redis.call('SET',k,v,'KEEPTTL') end end
return r`

	// guardReadScript is guardScript for a command that only reads: the envelopes return
	// to their place.
	guardReadScript = guardHead + `
for k,v in pairs(was) do redis.call('SET',k,v,'KEEPTTL') end
return r`

	// lookLua defines look, which says whether a key's string begins with m. Users may lack the
	// right to one of the commands that tell, or to both: what they may not see may be sealed, so
	// the second result is an error then. The third says that the key is no string.
	lookLua = `local function look(k) local v=redis.pcall('GETRANGE',k,0,#m-1)
if type(v)=='table' and string.sub(v.err,1,9)~='WRONGTYPE' then v=redis.pcall('GET',k) end
if type(v)~='table' then return v and string.sub(v,1,#m)==m end
if string.sub(v.err,1,9)~='WRONGTYPE' then return false,v end return false,nil,true end `

	guardHead = `local m,n=ARGV[1],tonumber(ARGV[2]) local known,unknown,found,was={},{` + luaMarker + `},{},{} ` + lookLua + `
for i=1,n do known[ARGV[1+2*i]]=ARGV[2+2*i] end
for _,k in ipairs(KEYS) do local sealed,hidden=look(k) if hidden then return hidden end
if sealed then local v=redis.call('GET',k)
if known[v] then found[k]=known[v] was[k]=v else unknown[#unknown+1]=v end end end
if #unknown>1 then return unknown end
for k,v in pairs(found) do local r=redis.pcall('SET',k,v,'KEEPTTL') if type(r)=='table' and r.err then return r end end
local r=redis.pcall(unpack(ARGV,3+2*n))`

	// guardFieldScript is guardScript for HINCRBYFLOAT: KEYS[1], and ARGV as above with
	// the key and the field behind the command's name.
	guardFieldScript = putFieldLua + `local m,n=ARGV[1],tonumber(ARGV[2]) local k,f=KEYS[1],ARGV[5+2*n]
local v=redis.pcall('HGET',k,f) if type(v)=='table' and string.sub(v.err,1,9)~='WRONGTYPE' then return v end
if type(v)=='string' and string.sub(v,1,#m)==m then local known
for i=1,n do if ARGV[1+2*i]==v then known=ARGV[2+2*i] end end
if not known then return {` + luaMarker + `,v} end local e=putfield(k,f,known) if e then return e end end
local r=redis.pcall(unpack(ARGV,3+2*n))
v=redis.pcall('HGET',k,f)
if type(v)=='string' and string.sub(v,1,#m)==m then ` + escapeLua + ` putfield(k,f,v) end
return r`

	// escapeScript wraps what begins with the magic. KEYS; ARGV: the magic, how many of the
	// keys are looked at as strings (the rest as hashes), plain bytes with the magic in them:
	// in a hash, which may hold envelopes, only what is a part of those is wrapped.
	escapeScript = putFieldLua + `local m=ARGV[1]
local function plain(v) for i=3,#ARGV do if string.find(ARGV[i],v,1,true) then return true end end end
local function wrap(v) ` + escapeLua + ` return v end
for i,k in ipairs(KEYS) do if i<=tonumber(ARGV[2]) then
if redis.pcall('GETRANGE',k,0,#m-1)==m then redis.call('SET',k,wrap(redis.call('GET',k)),'KEEPTTL') end
else local h=redis.pcall('HGETALL',k) if not h.err then for j=1,#h,2 do
if string.sub(h[j+1],1,#m)==m and plain(h[j+1]) then local e=putfield(k,h[j],wrap(h[j+1])) if e then return e end end end end end end`

	// escapeLua turns the plain value v into an envelope with codec raw.
	escapeLua = `local T={} for i=0,255 do local c=i
for _=1,8 do if bit.band(c,1)==1 then c=bit.bxor(bit.rshift(c,1),0xEDB88320) else c=bit.rshift(c,1) end end T[i]=c end
local c,len,xor,band,shift,byte=-1,#v,bit.bxor,bit.band,bit.rshift,string.byte
for i=1,len do c=xor(shift(c,8),T[band(xor(c,byte(v,i)),255)]) end
c=bit.bnot(c) local h=m..string.char(16,0)
while len>127 do h=h..string.char(len%128+128) len=math.floor(len/128) end h=h..string.char(len)
for i=0,3 do h=h..string.char(bit.band(bit.rshift(c,8*i),255)) end v=h..v`
)

// maxGuardArgs is how many arguments a guarded command may have: Lua's unpack is bounded.
const maxGuardArgs = 7000

// known is an envelope and the value it stands for.
type known struct{ sealed, value []byte }

// handleComputed sends a read behind a script that hands envelopes out; the reply pump
// computes on them. Nothing waits, so pipelines keep flowing.
func (s *session) handleComputed(r *request) error {
	if s.excluded(r.args[1:2]) {
		return s.forward(r, entry{})
	}
	if r.cmd.name == "bitcount" && len(r.args) == 3 {
		return s.handled(s.handleInflated(&request{cmd: bitcountFrom, args: r.args, raw: r.raw}))
	}
	verb, err := s.readVerb()
	if err != nil {
		return err
	}
	o := &op{plain: verb == "" || isWide(r) || len(r.args) > maxGuardArgs}
	o.args, o.size = cloneArgs(r.args)
	if err := s.expect(entry{kind: kindComputed, op: o}); err != nil {
		return err
	}
	s.g.cfg.Stats.Guarded(r.cmd.name, "sent")
	if o.plain {
		return s.send(plainRead(r))
	}
	last, script := "-1", peekScript
	if isLength(r.args) {
		last = strconv.Itoa(cinch.MaxHeaderLen - 1)
	}
	if r.cmd.name == "hstrlen" {
		script = peekFieldScript
	}
	return s.send(evalArgs(verb, script, r.args[1:2], []byte(cinch.Magic), []byte(last), r.args))
}

// bitcountFrom is the row of BITCOUNT with a start and no end, which means the last byte to Valkey and
// nothing to Redis: the server has to say.
var bitcountFrom = &command{name: "bitcount", arity: -2, strategy: inflated, keys: keyRange{first: 1, last: 1, step: 1}}

// isWide reports BITFIELD or BITFIELD_RO with fields above 53 bits: their values would be
// rounded on their way through Lua, whose numbers are doubles.
func isWide(r *request) bool {
	if !strings.HasPrefix(r.cmd.name, "bitfield") {
		return false
	}
	for _, a := range r.args[2:] {
		if len(a) == 3 && (a[0]|0x20 == 'i' || a[0]|0x20 == 'u') && (a[1] == '5' && a[2] > '3' || a[1] >= '6') {
			return true
		}
	}
	return false
}

// plainRead reads the whole value, for users without scripts.
func plainRead(r *request) [][]byte {
	if r.cmd.name == "hstrlen" {
		return [][]byte{[]byte("HGET"), r.args[1], r.args[2]}
	}
	return [][]byte{[]byte("GET"), r.args[1]}
}

// isLength reports a command that the envelope's header answers.
func isLength(args [][]byte) bool {
	return isWord(args[0], "strlen") || isWord(args[0], "hstrlen")
}

// evalArgs makes a call of a script with the arguments a, b and then args.
func evalArgs(verb, script string, keys [][]byte, a, b []byte, args [][]byte) [][]byte {
	call := make([][]byte, 0, 5+len(keys)+len(args))
	call = append(call, []byte(verb), []byte(script), strconv.AppendInt(nil, int64(len(keys)), 10))
	call = append(call, keys...)
	call = append(call, a, b)
	return append(call, args...)
}

// guardArgs makes a call of guardScript or guardFieldScript.
func guardArgs(script string, keys [][]byte, k []known, args [][]byte) [][]byte {
	rest := make([][]byte, 0, 2*len(k)+len(args))
	for _, kv := range k {
		rest = append(rest, kv.sealed, kv.value)
	}
	rest = append(rest, args...)
	return evalArgs("EVAL", script, keys, []byte(cinch.Magic), strconv.AppendInt(nil, int64(len(k)), 10), rest)
}

// handleInflated runs a command that needs the stored value itself.
func (s *session) handleInflated(r *request) error {
	keys, ok := r.cmd.keys.find(r.args)
	if !ok || s.excluded(keys) {
		return s.forward(r, entry{})
	}
	keys = distinct(keys)
	switch {
	case len(r.args) > maxGuardArgs || s.lua.denied || isWide(r) || (s.tracking || s.reads) && !s.tx.open:
		return s.runUnit(r, keys)
	case s.tx.open:
		return s.guardInTransaction(r, s.guardFor(r), keys)
	case !r.cmd.writes && s.version.Load() == 3 && !s.watched:
		return s.runUnit(r, keys) // a map that passes through Lua loses its order
	}
	return s.guard(r, s.guardFor(r), keys)
}

// guardFor is the script for a command. Where the client speaks RESP3, replies that are
// maps there must come to the script as such. While the client watches keys what a read puts back
// stays so: to seal it again would abort the client's transaction, each time that it tries.
func (s *session) guardFor(r *request) string {
	script := guardReadScript
	if r.cmd.writes || s.watched {
		script = guardScript
	}
	if !r.cmd.writes && s.version.Load() == 3 {
		return "redis.setresp(3) " + script
	}
	return script
}

// maxGuardTries bounds the race against writers that seal the key again and again.
const maxGuardTries = 32

// guard sends the command in a script and, each time that it meets an envelope, again
// with the value. The server runs script and command in one step, so no write is lost.
func (s *session) guard(r *request, script string, keys [][]byte) error {
	var k []known
	for range maxGuardTries {
		o := &op{done: make(chan struct{})}
		if err := s.ask(entry{kind: kindAsk, op: o}, guardArgs(script, keys, k, r.args)); err != nil {
			return err
		}
		if o.given {
			s.g.cfg.Stats.Guarded(r.cmd.name, guardOutcome(k))
			return nil
		}
		if o.answer.isError() {
			s.lua.denied = s.lua.denied || isNoLua(o.answer.text)
			r.unguarded = isNoRight(o.answer.text) && !s.lua.denied
			if r.unguarded && r.cmd.writes && mayMakeMagic(r.args) {
				return s.refuse(o.answer.text)
			}
			return s.runUnit(r, keys)
		}
		next, err := s.openAll(o.answer.handedOut())
		s.letGo(o)
		if err != nil {
			return s.refuseBroken(err)
		}
		k = next
		s.inflating(keys)
	}
	return s.refuse("ERR cinch: other clients kept changing the value; try again")
}

// mayMakeMagic reports that a command could make a value that does not begin with the magic do so.
func mayMakeMagic(args [][]byte) bool {
	switch {
	case isWord(args[0], "append"):
		for n := range len(cinch.Magic) {
			if bytes.HasPrefix(args[2], []byte(cinch.Magic[n:])) {
				return true
			}
		}
		return false
	case isWord(args[0], "setrange"):
		at, ok := resp.ParseInt(args[2])
		return ok && at < int64(len(cinch.Magic)) && bytes.ContainsFunc(args[3][:min(len(args[3]), len(cinch.Magic))], func(r rune) bool { return r >= 0x80 })
	}
	return true
}

func guardOutcome(k []known) string {
	if len(k) > 0 {
		return "inflated"
	}
	return "plain"
}

// ask sends a request whose answer the request pump waits for.
func (s *session) ask(e entry, args [][]byte) error {
	if err := s.expect(e); err != nil {
		return err
	}
	if err := s.send(args); err != nil {
		return err
	}
	return s.await(e.op)
}

// distinct drops repeated keys: what a script does to a key it must do once.
func distinct(keys [][]byte) [][]byte {
	if len(keys) < 2 {
		return keys
	}
	seen := make(map[string]bool, len(keys))
	out := keys[:0:0]
	for _, k := range keys {
		if !seen[string(k)] {
			seen[string(k)] = true
			out = append(out, k)
		}
	}
	return out
}

// handedOut are the envelopes in a script's answer, behind the marker.
func (a *answer) handedOut() [][]byte { return a.list[1:] }

// openAll opens envelopes that a script handed out.
func (s *session) openAll(sealed [][]byte) ([]known, error) {
	k := make([]known, 0, len(sealed))
	for _, env := range sealed {
		if env == nil {
			return nil, fmt.Errorf("%w: more than the memory budget allows at once", cinch.ErrTooLarge)
		}
		if slices.ContainsFunc(k, func(o known) bool { return bytes.Equal(o.sealed, env) }) {
			continue
		}
		kv, err := s.openHeld(env)
		if err != nil {
			return nil, err
		}
		k = append(k, kv)
	}
	return k, nil
}

// openHeld opens an envelope, which it holds with its value until the request has been handled.
func (s *session) openHeld(env []byte) (known, error) {
	h, err := cinch.ParseHeader(env)
	if err == nil && h.RawLen <= s.g.maxOpen() {
		err = s.hold(len(env) + h.RawLen)
	}
	if err != nil {
		return known{}, err
	}
	value, err := s.g.sealer.Open(nil, env)
	return known{env, value}, err
}

// hold takes n bytes of the budget until the request at hand has been handled; small ones when they
// have come to some.
func (s *session) hold(n int) error {
	if s.owes += int64(n); s.owes <= freeBytes {
		return nil
	}
	n64 := s.owes
	s.owes = 0
	if !s.acquire(n64, n64, reservePatience*s.g.cfg.Stall) {
		s.g.cfg.Stats.Error("budget")
		return errNoRoom
	}
	s.holds = append(s.holds, n64)
	return nil
}

// handled gives back what was held for a request.
func (s *session) handled(err error) error {
	for _, n := range s.holds {
		s.requestRoom.Release(n)
	}
	s.holds, s.owes = s.holds[:0], 0
	return err
}

// refuseBroken answers for a sealed value that does not open.
func (s *session) refuseBroken(err error) error {
	pattern := ""
	if args := s.req.args; len(args) > 1 {
		pattern = patternOf(args[1])
	}
	return s.refuseFor(s.sayBroken(err, pattern))
}

// inflating counts an inflation; patterns that are inflated all the time stop being sealed.
func (s *session) inflating(keys [][]byte) {
	s.g.cfg.Stats.Inflated("command")
	for _, k := range keys {
		if s.g.churn.inflated(k) {
			s.g.cfg.Stats.Inflated("pattern_stopped")
			s.g.cfg.Log.Info("keys of this pattern are inflated again and again; new values stay plain for a while",
				"pattern", patternOf(k))
		}
	}
}

// handleFloat runs INCRBYFLOAT and HINCRBYFLOAT as they are. Numbers are never sealed
// when they are short, but these commands also read long ones.
func (s *session) handleFloat(r *request) error {
	keys := r.args[1:2]
	if s.excluded(keys) || s.lua.denied {
		return s.forward(r, entry{})
	}
	script := guardScript
	if r.cmd.name == "hincrbyfloat" {
		script = guardFieldScript
	}
	if s.tx.open {
		return s.guardInTransaction(r, script, keys)
	}
	o := &op{done: make(chan struct{})}
	if err := s.ask(entry{kind: kindFloat, op: o}, r.args); err != nil || o.given {
		return err
	}
	return s.guard(r, script, keys)
}

// isNoLua matches the server's refusal of EVAL, of Redis 7.0 and later.
func isNoLua(text string) bool {
	return strings.HasPrefix(text, "NOPERM") && strings.Contains(text, "'eval'")
}

// isNoRight matches the refusal of a command that the user may not run, in a script or elsewhere.
func isNoRight(text string) bool {
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "user executing the script can't ")
}

// isNoGuard matches what a guard answers that may not run, may not look at its keys, or may not write: the
// command itself may be allowed, and a replica may have more to say about it.
func isNoGuard(text string) bool {
	return isNoRight(text) || strings.HasPrefix(text, "READONLY ")
}

// isNoFloat matches "ERR value is not a valid float" and "ERR hash value is not a float".
func isNoFloat(text string) bool {
	return strings.HasPrefix(text, "ERR") &&
		(strings.HasSuffix(text, "value is not a valid float") || strings.HasSuffix(text, "hash value is not a float"))
}

// excluded reports that the policy promises that none of the keys holds an envelope.
func (s *session) excluded(keys [][]byte) bool {
	p := s.rules()
	for _, k := range keys {
		if !p.Excluded(k) {
			return false
		}
	}
	return len(keys) > 0
}

// cloneArgs copies the arguments of a read, but for its key, and says how many bytes that
// takes.
func cloneArgs(args [][]byte) (out [][]byte, size int) {
	n := 0
	for i, a := range args {
		if i != 1 {
			n += len(a)
		}
	}
	mem := make([]byte, 0, n)
	out = make([][]byte, len(args))
	for i, a := range args {
		if i != 1 {
			mem = append(mem, a...)
			out[i] = mem[len(mem)-len(a) : len(mem) : len(mem)]
		}
	}
	return out, n + 24*len(args)
}
