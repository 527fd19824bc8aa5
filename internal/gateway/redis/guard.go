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

// guard handles commands that compute on stored values.
type guard struct {
	talk   *conversation
	user   *user
	vault  *vault
	prober *prober
	units  *units
}

// computed sends a read behind a script that hands envelopes out; the reply pump
// computes on them. Nothing waits, so pipelines keep flowing.
func (g *guard) computed(r *request) error {
	if excluded(g.vault.rules(), r.args[1:2]) {
		return g.talk.forward(r, entry{})
	}
	if r.cmd.name == "bitcount" && len(r.args) == 3 {
		return g.inflated(&request{cmd: bitcountFrom, args: r.args, raw: r.raw})
	}
	verb, err := g.user.readVerb()
	if err != nil {
		return err
	}
	o := &op{plain: verb == "" || compute.IsWide(r.args) || len(r.args) > lua.MaxArgs}
	o.args, o.size = cloneArgs(r.args)
	if err := g.talk.expect(entry{kind: kindComputed, op: o}); err != nil {
		return err
	}
	g.vault.Stats.Guarded(r.cmd.name, "sent")
	if o.plain {
		return g.talk.send(plainRead(r))
	}
	most, script := 0, lua.Peek
	if compute.IsLength(r.args) {
		most = cinch.MaxHeaderLen
	}
	if r.cmd.name == "hstrlen" {
		script = lua.PeekField
	}
	return g.talk.send(lua.CallPeek(verb, script, r.args[1], most, r.args))
}

// plainRead reads the whole value, for users without scripts.
func plainRead(r *request) [][]byte {
	if r.cmd.name == "hstrlen" {
		return [][]byte{[]byte("HGET"), r.args[1], r.args[2]}
	}
	return [][]byte{[]byte("GET"), r.args[1]}
}

// inflated runs a command that needs the stored value itself.
func (g *guard) inflated(r *request) error {
	keys, ok := r.cmd.keys.find(r.args)
	if !ok || excluded(g.vault.rules(), keys) {
		return g.talk.forward(r, entry{})
	}
	keys = distinct(keys)
	switch {
	case len(r.args) > lua.MaxArgs || g.user.lua.denied || compute.IsWide(r.args) || (g.user.tracking || g.user.second.reads) && !g.talk.tx.open:
		return g.units.run(r, keys)
	case g.talk.tx.open:
		return g.inTransaction(r, g.guardFor(r), keys)
	case !r.cmd.writes && g.talk.st.version.Load() == 3 && !g.talk.tx.watch.on:
		return g.units.run(r, keys) // a map that passes through Lua loses its order
	}
	return g.run(r, g.guardFor(r), keys)
}

// guardFor is the script for a command. Where the client speaks RESP3, replies that are
// maps there must come to the script as such. While the client watches keys what a read puts back
// stays so: to seal it again would abort the client's transaction, each time that it tries.
func (g *guard) guardFor(r *request) string {
	script := lua.GuardRead
	if r.cmd.writes || g.talk.tx.watch.on {
		script = lua.Guard
	}
	if !r.cmd.writes && g.talk.st.version.Load() == 3 {
		return "redis.setresp(3) " + script
	}
	return script
}

// maxGuardTries bounds the race against writers that seal the key again and again.
const maxGuardTries = 32

// run sends the command in a script and, each time that it meets an envelope, again
// with the value. The server runs script and command in one step, so no write is lost.
func (g *guard) run(r *request, script string, keys [][]byte) error {
	var k []lua.Known
	for range maxGuardTries {
		o := &op{done: make(chan struct{})}
		if err := g.talk.ask(entry{kind: kindAsk, op: o}, lua.CallGuard(script, keys, k, r.args)); err != nil {
			return err
		}
		if o.given {
			g.vault.Stats.Guarded(r.cmd.name, guardOutcome(k))
			return nil
		}
		if o.answer.isError() {
			g.user.lua.denied = g.user.lua.denied || isNoLua(o.answer.text)
			r.unguarded = isNoRight(o.answer.text) && !g.user.lua.denied
			if r.unguarded && r.cmd.writes && compute.MayMakeMagic(r.args) {
				return g.talk.refuse(o.answer.text)
			}
			return g.units.run(r, keys)
		}
		next, err := g.prober.stash.openAll(o.answer.handedOut())
		g.talk.letGo(o)
		if err != nil {
			return g.prober.broken(err)
		}
		k = next
		g.vault.inflating(keys)
	}
	return g.talk.refuse("ERR cinch: other clients kept changing the value; try again")
}

func guardOutcome(k []lua.Known) string {
	if len(k) > 0 {
		return "inflated"
	}
	return "plain"
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

// float runs INCRBYFLOAT and HINCRBYFLOAT as they are. Numbers are never sealed
// when they are short, but these commands also read long ones.
func (g *guard) float(r *request) error {
	keys := r.args[1:2]
	if excluded(g.vault.rules(), keys) || g.user.lua.denied {
		return g.talk.forward(r, entry{})
	}
	script := lua.Guard
	if r.cmd.name == "hincrbyfloat" {
		script = lua.GuardField
	}
	if g.talk.tx.open {
		return g.inTransaction(r, script, keys)
	}
	o := &op{done: make(chan struct{})}
	if err := g.talk.ask(entry{kind: kindFloat, op: o}, r.args); err != nil || o.given {
		return err
	}
	return g.run(r, script, keys)
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

// Commands that compare the stored value with one of their own, or its digest, and then set or delete
// it: SET with IFEQ, IFNE, IFDEQ or IFDNE, DELEX, DELIFEQ. The server compares what is stored, so a
// sealed value is put back for that, in one step with the command. Where the comparison fails
// the value is still there afterwards, and the envelope takes its place again.

func (g *guard) compared(r *request) error {
	keys := r.args[1:2]
	if excluded(g.vault.rules(), keys) || r.cmd.name == "delex" && len(r.args) == 2 { // deletes whatever it is
		return g.talk.forward(r, entry{})
	}
	switch {
	case g.user.lua.denied || (g.user.tracking || g.user.second.reads) && !g.talk.tx.open:
		return g.units.run(r, keys)
	case g.talk.tx.open:
		return g.inTransaction(r, lua.Compare, keys)
	case g.talk.tx.watch.on:
		return g.run(r, lua.CompareWatched, keys)
	}
	return g.run(r, lua.Compare, keys)
}

// inTransaction queues a guarded command with every value that it may meet: those
// stored now, read on a second connection, and those set in this transaction.
func (g *guard) inTransaction(r *request, script string, keys [][]byte) error {
	found := g.prober.probe(keys)
	if found.err != nil {
		return g.prober.broken(found.err)
	}
	k := append([]lua.Known(nil), g.talk.tx.known...)
	for i := range found.parts {
		k = append(k, found.parts[i].Known)
	}
	if len(k) > 0 {
		g.vault.Stats.Guarded(r.cmd.name, "in_transaction")
	}
	if err := g.talk.expect(entry{kind: kindAsk, op: &op{}}); err != nil {
		return err
	}
	return g.talk.send(lua.CallGuard(script, keys, k, r.args))
}

// script runs EVAL, EVALSHA, FCALL and their kin.
func (g *guard) script(r *request) error {
	if evalFor(r.cmd.name) == strings.ToUpper(r.cmd.name) {
		g.user.second.scripts.learn(r.args[1])
	}
	keys, ok := r.cmd.keys.find(r.args)
	if !ok || len(keys) == 0 || excluded(g.vault.rules(), keys) {
		if compute.CarriesMagic(r.args[1:]) {
			g.vault.Stats.Guarded(r.cmd.name, "unseen_magic")
		}
		return g.talk.forward(r, g.talk.tx.echoing(r, nil))
	}
	return g.units.run(r, distinct(keys))
}

// unknown runs a command that the table does not know as if it computed on the
// values of its keys: they are put back first. What it writes stays plain.
func (g *guard) unknown(r *request) error {
	keys, err := g.user.second.keysOf(r.args)
	if err != nil {
		return g.talk.refuse(fmt.Sprintf("ERR cinch: %.32q is not in the command table, and its keys can't be asked: %v", r.args[0], err))
	}
	if len(keys) == 0 || excluded(g.vault.rules(), keys) {
		return g.talk.forward(r, g.talk.tx.echoing(&request{cmd: unknownCommand, args: r.args}, nil))
	}
	for _, a := range r.args[1:] {
		if cinch.IsSealed(a) && !slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, a) }) {
			text := "ERR cinch: %.32q is not in the command table and would store a value that begins like an envelope"
			if r.cmd != unknownCommand {
				text = "ERR cinch: %.32q is malformed, or has options that the gateway does not know, and would store a value that begins like an envelope"
			}
			return g.talk.refuse(fmt.Sprintf(text, r.args[0]))
		}
	}
	u := *r
	u.cmd = unknownCommand
	return g.units.run(&u, distinct(keys))
}

// storedCommands run what works on stored values themselves, sealed ones among them: the server must meet
// the values as the client has written them. How each does it is in a file of its own.
type storedCommands struct {
	prober prober
	within within
	units  units
	guard  guard
	sorter sorter
}

func newStoredCommands(talk *conversation, user *user, stash *stash, inCluster bool) *storedCommands {
	c, vault := &storedCommands{}, stash.vault
	c.prober = prober{second: &user.second, stash: stash}
	c.within = within{talk: talk, user: user, vault: vault, prober: &c.prober}
	c.units = units{talk: talk, user: user, vault: vault, prober: &c.prober, within: &c.within}
	c.guard = guard{talk: talk, user: user, vault: vault, prober: &c.prober, units: &c.units}
	c.sorter = sorter{talk: talk, user: user, vault: vault, prober: &c.prober, inCluster: inCluster}
	return c
}

// run runs the request at hand. What its row does not tell how to run is run as what nobody knows.
func (c *storedCommands) run(r *request) error {
	return c.runAs(r, r.cmd.strategy, r)
}

// compare runs a SET that compares, with the arguments that take the place of its own.
func (c *storedCommands) compare(r *request, args [][]byte) error {
	return c.runAs(r, compared, &request{cmd: comparedSet, args: args})
}

// unknown runs a request whose row does not know its form.
func (c *storedCommands) unknown(r *request) error { return c.runAs(r, unknown, r) }

// runAs runs one in place of the request at hand.
func (c *storedCommands) runAs(hand *request, how strategy, r *request) error {
	c.prober.req = hand
	return c.prober.stash.release(c.by(how, r))
}

func (c *storedCommands) by(how strategy, r *request) error {
	switch how {
	case computed:
		return c.guard.computed(r)
	case inflated:
		return c.guard.inflated(r)
	case compared:
		return c.guard.compared(r)
	case floats:
		return c.guard.float(r)
	case scripts:
		return c.guard.script(r)
	case sorts:
		return c.sorter.sort(r)
	}
	return c.guard.unknown(r)
}
