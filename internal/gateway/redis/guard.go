package redis

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/redis/compute"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
)

// guard handles commands that compute on stored values.
type guard struct {
	upstream *upstreamWriter
	user     *user
	codec    *valueCodec
	prober   *keyProber
	units    *units
}

// computed sends a read in a script that returns envelopes; the reply pump computes on them. The request pump
// does not wait, so pipelines keep flowing.
func (g *guard) computed(r *request) error {
	if excluded(g.codec.rules(), r.args[1:2]) {
		return g.upstream.forward(r, entry{})
	}
	if r.cmd.name == "bitcount" && len(r.args) == 3 {
		return g.inflated(&request{cmd: bitcountFrom, args: r.args, raw: r.raw})
	}
	verb, err := g.user.readOnlyEval()
	if err != nil {
		return err
	}
	o := &entryData{wholeValue: verb == "" || compute.IsWide(r.args) || len(r.args) > lua.MaxArgs}
	o.args, o.size = cloneArgs(r.args)
	if err := g.upstream.expect(entry{kind: kindComputed, data: o}); err != nil {
		return err
	}
	g.codec.Stats.Guarded(r.cmd.name, "sent")
	if o.wholeValue {
		return g.upstream.send(plainRead(r))
	}
	most, script := 0, lua.Peek
	if compute.IsLength(r.args) {
		most = envelope.MaxHeaderLen
	}
	if r.cmd.name == "hstrlen" {
		script = lua.PeekField
	}
	return g.upstream.send(lua.CallPeek(verb, script, r.args[1], most, r.args))
}

// plainRead returns a request for the whole value, for a read that can't run in a script.
func plainRead(r *request) [][]byte {
	if r.cmd.name == "hstrlen" {
		return [][]byte{[]byte("HGET"), r.args[1], r.args[2]}
	}
	return [][]byte{[]byte("GET"), r.args[1]}
}

// inflated runs a command that needs the stored value itself.
func (g *guard) inflated(r *request) error {
	keys, ok := r.cmd.keys.find(r.args)
	if !ok || excluded(g.codec.rules(), keys) {
		return g.upstream.forward(r, entry{})
	}
	keys = distinct(keys)
	switch {
	case len(r.args) > lua.MaxArgs || g.user.lua.denied || compute.IsWide(r.args) || (g.user.tracking.Load() || g.user.sideConn.readOnly) && !g.upstream.tx.open:
		return g.units.run(r, keys)
	case g.upstream.tx.open:
		return g.inTransaction(r, g.guardFor(r), keys)
	case !r.cmd.writes && g.upstream.state.version.Load() == 3 && !g.upstream.tx.watch.on:
		return g.units.run(r, keys) // in a script a RESP3 map would lose its order
	}
	return g.run(r, g.guardFor(r), keys)
}

// guardFor returns the script for a command. If the client speaks RESP3, the script must receive RESP3 maps
// as maps. While the client watches keys, a value that a read decompresses in place stays decompressed: storing the
// envelope again would abort the client's transaction, each time that it retries.
func (g *guard) guardFor(r *request) string {
	script := lua.GuardRead
	if r.cmd.writes || g.upstream.tx.watch.on {
		script = lua.Guard
	}
	if !r.cmd.writes && g.upstream.state.version.Load() == 3 {
		return "redis.setresp(3) " + script
	}
	return script
}

// maxGuardTries limits the retries when writers store envelopes again and again.
const maxGuardTries = 32

// run sends the command in a script. Each time that the script meets an envelope, run repeats it with the
// decompressed value. The server runs script and command in one step, so no write is lost.
func (g *guard) run(r *request, script string, keys [][]byte) error {
	var k []lua.Known
	for range maxGuardTries {
		o := &entryData{done: make(chan struct{})}
		if err := g.upstream.ask(entry{kind: kindAsk, data: o}, lua.CallGuard(script, keys, k, r.args)); err != nil {
			return err
		}
		if o.delivered {
			g.codec.Stats.Guarded(r.cmd.name, guardOutcome(k))
			return nil
		}
		if o.answer.isError() {
			g.user.lua.denied = g.user.lua.denied || isNoLua(o.answer.text)
			r.unguarded = isNoRight(o.answer.text) && !g.user.lua.denied
			if r.unguarded && r.cmd.writes && compute.MayMakeMagic(r.args) {
				return g.upstream.refuse(o.answer.text)
			}
			return g.units.run(r, keys)
		}
		next, err := g.prober.decoded.openAll(o.answer.envelopes())
		g.upstream.release(o)
		if err != nil {
			return g.prober.refuseCorrupt(err)
		}
		k = next
		g.codec.countInflated(keys)
	}
	return g.upstream.refuse("ERR cinch: other clients kept changing the value; try again")
}

func guardOutcome(k []lua.Known) string {
	if len(k) > 0 {
		return "inflated"
	}
	return "plain"
}

// distinct removes repeated keys: a script must treat each key once.
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

// envelopes returns the envelopes in a script's answer, behind the marker.
func (a *answer) envelopes() [][]byte { return a.list[1:] }

// float runs INCRBYFLOAT and HINCRBYFLOAT unchanged. Short numbers are never compressed, but these commands
// also read long ones.
func (g *guard) float(r *request) error {
	keys := r.args[1:2]
	if excluded(g.codec.rules(), keys) || g.user.lua.denied {
		return g.upstream.forward(r, entry{})
	}
	script := lua.Guard
	if r.cmd.name == "hincrbyfloat" {
		script = lua.GuardField
	}
	if g.upstream.tx.open {
		return g.inTransaction(r, script, keys)
	}
	o := &entryData{done: make(chan struct{})}
	if err := g.upstream.ask(entry{kind: kindFloat, data: o}, r.args); err != nil || o.delivered {
		return err
	}
	return g.run(r, script, keys)
}

// cloneArgs copies the arguments of a read, except its key, and returns the bytes that they take.
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

// Commands that compare the stored value with an argument, or its digest, and then set or delete it: SET with
// IFEQ, IFNE, IFDEQ or IFDNE, DELEX, DELIFEQ. The server compares the stored bytes, so a compressed value is
// decompressed in place, in one step with the command. If the comparison fails and the value is still there,
// its envelope replaces it again.

func (g *guard) compared(r *request) error {
	keys := r.args[1:2]
	if excluded(g.codec.rules(), keys) || r.cmd.name == "delex" && len(r.args) == 2 { // it deletes any value
		return g.upstream.forward(r, entry{})
	}
	switch {
	case g.user.lua.denied || (g.user.tracking.Load() || g.user.sideConn.readOnly) && !g.upstream.tx.open:
		return g.units.run(r, keys)
	case g.upstream.tx.open:
		return g.inTransaction(r, lua.Compare, keys)
	case g.upstream.tx.watch.on:
		return g.run(r, lua.CompareWatched, keys)
	}
	return g.run(r, lua.Compare, keys)
}

// inTransaction queues a guarded command together with every decompressed value that it may meet. These are the values
// stored now, which it reads on the second connection, and the values set in this transaction.
func (g *guard) inTransaction(r *request, script string, keys [][]byte) error {
	found := g.prober.probe(keys)
	if found.err != nil {
		return g.prober.refuseCorrupt(found.err)
	}
	k := append([]lua.Known(nil), g.upstream.tx.known...)
	for i := range found.parts {
		k = append(k, found.parts[i].Known)
	}
	if len(k) > 0 {
		g.codec.Stats.Guarded(r.cmd.name, "in_transaction")
	}
	if err := g.upstream.expect(entry{kind: kindAsk, data: &entryData{}}); err != nil {
		return err
	}
	return g.upstream.send(lua.CallGuard(script, keys, k, r.args))
}

// script runs EVAL, EVALSHA, FCALL and their variants.
func (g *guard) script(r *request) error {
	if evalFor(r.cmd.name) == strings.ToUpper(r.cmd.name) {
		g.user.sideConn.scripts.add(r.args[1])
	}
	keys, ok := r.cmd.keys.find(r.args)
	if !ok || len(keys) == 0 || excluded(g.codec.rules(), keys) {
		if compute.CarriesMagic(r.args[1:]) {
			g.codec.Stats.Guarded(r.cmd.name, "unseen_magic")
		}
		return g.upstream.forward(r, g.upstream.tx.echoEntry(r, nil))
	}
	return g.units.run(r, distinct(keys))
}

// unknown runs a command that the table does not know. It assumes that the command computes on the values of its keys,
// so these are decompressed in place first. Values that the command writes stay uncompressed.
func (g *guard) unknown(r *request) error {
	keys, err := g.user.sideConn.keysOf(r.args)
	if err != nil {
		return g.upstream.refuse(fmt.Sprintf("ERR cinch: %.32q is not in the command table, and the server does not tell its keys: %v", r.args[0], err))
	}
	if len(keys) == 0 || excluded(g.codec.rules(), keys) {
		return g.upstream.forward(r, g.upstream.tx.echoEntry(&request{cmd: unknownCommand, args: r.args}, nil))
	}
	for _, a := range r.args[1:] {
		if envelope.IsSealed(a) && !slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, a) }) {
			text := "ERR cinch: %.32q is not in the command table and would store a value that begins like an envelope"
			if r.cmd != unknownCommand {
				text = "ERR cinch: %.32q is malformed, or has options that the gateway does not know, and would store a value that begins like an envelope"
			}
			return g.upstream.refuse(fmt.Sprintf(text, r.args[0]))
		}
	}
	u := *r
	u.cmd = unknownCommand
	return g.units.run(&u, distinct(keys))
}

// storedCommands runs commands for which the server must see stored values as the client wrote them. Its parts are in
// guard.go, gatewaytransaction.go, insidetransaction.go, sort.go and keyprober.go.
type storedCommands struct {
	prober keyProber
	nested nestedUnits
	units  units
	guard  guard
	sorter sorter
}

func newStoredCommands(upstream *upstreamWriter, user *user, decoded *decodeBuffer, inCluster bool) *storedCommands {
	c, codec := &storedCommands{}, decoded.codec
	c.prober = keyProber{sideConn: &user.sideConn, decoded: decoded}
	c.nested = nestedUnits{upstream: upstream, user: user, codec: codec, prober: &c.prober}
	c.units = units{upstream: upstream, user: user, codec: codec, prober: &c.prober, nested: &c.nested}
	c.guard = guard{upstream: upstream, user: user, codec: codec, prober: &c.prober, units: &c.units}
	c.sorter = sorter{upstream: upstream, user: user, codec: codec, prober: &c.prober, inCluster: inCluster}
	return c
}

// run runs the current request. If its row does not say how, it is run like an unknown command.
func (c *storedCommands) run(r *request) error {
	return c.runAs(r, r.cmd.strategy, r)
}

// compare runs a SET that compares, with args in place of its own arguments.
func (c *storedCommands) compare(r *request, args [][]byte) error {
	return c.runAs(r, compared, &request{cmd: comparedSet, args: args})
}

// unknown runs a request whose form its row does not know.
func (c *storedCommands) unknown(r *request) error { return c.runAs(r, unknown, r) }

// runAs runs r as the strategy how says, in place of the current request.
func (c *storedCommands) runAs(current *request, how strategy, r *request) error {
	if err := c.guard.upstream.pinForWrite(); err != nil { // most use transactions
		return err
	}
	c.prober.req = current
	return c.prober.decoded.release(c.dispatch(how, r))
}

func (c *storedCommands) dispatch(how strategy, r *request) error {
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
