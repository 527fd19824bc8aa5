package redis

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

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
	o := &op{plain: verb == "" || compute.IsWide(r.args) || len(r.args) > lua.MaxArgs}
	o.args, o.size = cloneArgs(r.args)
	if err := s.expect(entry{kind: kindComputed, op: o}); err != nil {
		return err
	}
	s.g.cfg.Stats.Guarded(r.cmd.name, "sent")
	if o.plain {
		return s.send(plainRead(r))
	}
	most, script := 0, lua.Peek
	if compute.IsLength(r.args) {
		most = cinch.MaxHeaderLen
	}
	if r.cmd.name == "hstrlen" {
		script = lua.PeekField
	}
	return s.send(lua.CallPeek(verb, script, r.args[1], most, r.args))
}

// bitcountFrom is the row of BITCOUNT with a start and no end, which means the last byte to Valkey and
// nothing to Redis: the server has to say.
var bitcountFrom = &command{name: "bitcount", arity: -2, strategy: inflated, keys: keyRange{first: 1, last: 1, step: 1}}

// plainRead reads the whole value, for users without scripts.
func plainRead(r *request) [][]byte {
	if r.cmd.name == "hstrlen" {
		return [][]byte{[]byte("HGET"), r.args[1], r.args[2]}
	}
	return [][]byte{[]byte("GET"), r.args[1]}
}

// handleInflated runs a command that needs the stored value itself.
func (s *session) handleInflated(r *request) error {
	keys, ok := r.cmd.keys.find(r.args)
	if !ok || s.excluded(keys) {
		return s.forward(r, entry{})
	}
	keys = distinct(keys)
	switch {
	case len(r.args) > lua.MaxArgs || s.lua.denied || compute.IsWide(r.args) || (s.tracking || s.reads) && !s.tx.open:
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
	script := lua.GuardRead
	if r.cmd.writes || s.watched {
		script = lua.Guard
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
	var k []lua.Known
	for range maxGuardTries {
		o := &op{done: make(chan struct{})}
		if err := s.ask(entry{kind: kindAsk, op: o}, lua.CallGuard(script, keys, k, r.args)); err != nil {
			return err
		}
		if o.given {
			s.g.cfg.Stats.Guarded(r.cmd.name, guardOutcome(k))
			return nil
		}
		if o.answer.isError() {
			s.lua.denied = s.lua.denied || isNoLua(o.answer.text)
			r.unguarded = isNoRight(o.answer.text) && !s.lua.denied
			if r.unguarded && r.cmd.writes && compute.MayMakeMagic(r.args) {
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

func guardOutcome(k []lua.Known) string {
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
func (s *session) openAll(sealed [][]byte) ([]lua.Known, error) {
	k := make([]lua.Known, 0, len(sealed))
	for _, env := range sealed {
		if env == nil {
			return nil, fmt.Errorf("%w: more than the memory budget allows at once", cinch.ErrTooLarge)
		}
		if slices.ContainsFunc(k, func(o lua.Known) bool { return bytes.Equal(o.Sealed, env) }) {
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
func (s *session) openHeld(env []byte) (lua.Known, error) {
	h, err := cinch.ParseHeader(env)
	if err == nil && h.RawLen <= s.g.maxOpen() {
		err = s.hold(len(env) + h.RawLen)
	}
	if err != nil {
		return lua.Known{}, err
	}
	value, err := s.g.sealer.Open(nil, env)
	return lua.Known{Sealed: env, Value: value}, err
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
	script := lua.Guard
	if r.cmd.name == "hincrbyfloat" {
		script = lua.GuardField
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
