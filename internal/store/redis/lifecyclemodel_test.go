package redis

import (
	"fmt"
	"time"
)

// lifecycle is a model of one dictionary: of the servers that hold it, the gateways that store it and name it in
// values, the collector that archives it, and what happens to all of them. docs/LIFECYCLE.md describes it. Each
// action stands for one command of a server, or for several that the model does not divide. Times are those of the
// code. Decisions by what a gateway knows are not modelled but called: readiness and inventory.
//
//	action of the model     code
//	check begins, ends      Dicts.Recheck and Publish: toVerify; then store, markStored, withhold
//	copies                  ClusterDicts.spread: Spread, Dicts.storeAs
//	adopts                  announcer.fetch
//	connects                Dicts.Dialed; of a packer: Dicts.Ensure
//	sends a value           valueRewriter.setting: NodeDicts.ReadyOn; pack.Seal.Decide: ClusterDicts.Ready
//	gc                      Collect: idle, retire, decide, archive
//	gc --forget             forgetAll in cmd/cinch, dictAdmin.Forget
type lifecycle struct {
	shards, gateways int
	packs            bool // the last gateway is a packer: it has connections of its own, which Ensure prepares

	// What may happen. Each failover, restore, flush, crash, stop of the collector and foreign library uses up one of
	// faults; the collector starts runs times.
	faults, runs                                          int
	moves, fails, quick, backups, flushes, crash, foreign bool
	renames                                               bool // a scan may miss a value, since its key is renamed
	erases                                                bool
	cutOff                                                bool      // gateways can't check or connect any more
	first                                                 libraries // in all shards; not 0: gateways keep them, and are connected

	without protections
	ignores conditions

	clock   *readiness // reused: decides for each gateway and shard
	until   map[uint32]time.Duration
	retired [32]bool // by libraries, from inventory.isRetired
	gone    [32]bool // from inventory.isForgotten
	lost    [32]bool // from inventory.isLost
}

// protections lists what the code does so that no value loses its dictionary. A test leaves out each.
type protections struct {
	lease         bool // the end of a check's validity: readiness.lease
	allShards     bool // a value names the dictionary when all primaries hold it: ClusterDicts.Ready
	readBack      bool // ensureStored
	restore       bool // a check stores again what the server has lost
	spread        bool // ClusterDicts.spread
	serverChange  bool // a connection newer than the check waits for the next: readiness.ReadyOn
	lost          bool // Dicts.Lost
	kick          bool // Dicts.Kick
	ensure        bool // Dicts.Ensure
	mark          bool // gateways heed the mark of a retired dictionary
	firstScan     bool // CollectOptions.idle
	wait          bool // CollectOptions.Wait
	secondScan    bool // CollectOptions.decide
	layout        bool // ErrMoved
	stillRetired  bool // CollectOptions.stillRetired
	archiveFirst  bool // dictBackends.archiveThis: into the archive before out of use
	lookInArchive bool // dictBackends.find
	eraseScan     bool // forgetAll
}

// conditions lists what must be so for the invariants to hold; docs/LIFECYCLE.md says which of it is documented. A
// test ignores each.
type conditions struct {
	moveWhenChecked  bool // slots move to a shard that lost dictionaries after a gateway has checked it
	keeperRuns       bool // after FUNCTION FLUSH a gateway that holds the dictionary runs until it has checked the server
	aSecond          bool // a second passes before a server takes over that lacks what the one before it had
	sameServer       bool // gc archives, and erases, on one server: none is replaced or flushed between its commands
	shortLag         bool // replicas and backups that take a server's place have the mark that gc has set
	noCheckMeanwhile bool // --forget marks a shard that lacks the dictionary while no gateway checks it
	renameAndErase   bool // nothing is erased whose values were renamed during a scan
}

const (
	tickText    = "30 seconds pass"
	maxShards   = 2
	maxGateways = 2
	tick        = 30 * time.Second // the steps of time; a command is under way no longer
	modelWait   = DefaultLease + tick
	theDict     = 1
	instant     = 100 * time.Millisecond // the unit of ages
	longAgo     = 2500                   // before anything that matters
)

// libraries are those of the dictionary in a server.
type libraries uint8

const (
	live     libraries = 1 << iota // cinch_dict_…
	archived                       // cinch_archive_…
	marked                         // cinch_retired_…
	foreign                        // something else under the name of the live one
	erased                         // the mark says that the dictionary was erased
)

// stored holds what a server stores.
type stored struct {
	libs  libraries
	names uint8 // bit k: slot k holds a value that names the dictionary

	flushed bool // FUNCTION FLUSH removed the libraries, and no gateway has checked the server since
}

type shardState struct {
	now, replica, backup stored
	unchecked            bool // another server took over, and no gateway has checked it
}

// dictsState is the Dicts of a gateway for one shard, and the connection to it on which clients' values go.
type dictsState struct {
	kept, verified  bool
	ready           bool
	age             uint16 // since the check began that made it ready, in instants
	doubted         bool   // kicks and checked differ
	told            bool   // the gateway forwarded a FUNCTION FLUSH, and has not checked the server since
	connected       bool
	dialed, lostAge uint16 // in instants
}

// operation is a check, or a copy to another shard, that has begun.
type operation struct {
	is      operationKind
	shard   uint8
	found   libraries // the inventory; for a copy: the state to end in
	age     uint16
	doubted bool // invalidate was called since
	stale   bool // the server was flushed or replaced since
	told    bool // the gateway forwarded a flush since
}

type operationKind uint8

const (
	noOperation operationKind = iota
	checking
	copying
)

// sent is a write that names the dictionary, on its way to a shard.
type sent struct {
	is          bool
	slot, shard uint8
	late        bool // sent before the last tick
}

type gatewayState struct {
	at    [maxShards]dictsState
	op    operation
	write sent
}

// collectorState is the progress of cinch dict gc.
type collectorState struct {
	phase   phase
	shard   uint8 // whose turn it is
	wait    uint8 // ticks left
	retired bool  // the dictionary was retired when the run began
	found   bool  // the scan found a value
	moved   bool  // slots moved during the scan
	marks   uint8 // bit i: shard i had the mark after retire
	erased  bool  // from a shard
}

type phase uint8

const (
	notCollecting phase = iota
	scanning
	retiring
	waiting
	scanningAgain
	deciding
	unretiring
	archiving // three steps for each shard: store in the archive, remove the live one, remove the mark
	removing
	unmarking
	scanningToErase // cinch dict gc --forget
	checkingToErase
	markingToErase
	erasing
)

// lifecycleState is a state of the model.
type lifecycleState struct {
	shards     [maxShards]shardState
	owner      [maxShards]uint8 // of slots; slot k begins on shard k
	gateways   [maxGateways]gatewayState
	collector  collectorState
	faults     uint8 // left
	runs       uint8 // left
	renamed    bool  // a scan has missed a value
	erasedAll  bool  // the eraser has ended, and no server was replaced since
	cameBack   bool  // a gateway has stored the dictionary after that
	namedAfter bool  // a gateway named the dictionary after it forwarded a FUNCTION FLUSH
}

// lifecycleAction is a step of the model.
type lifecycleAction struct {
	is      actionKind
	gateway uint8
	shard   uint8 // or slot
}

type actionKind uint8

const (
	checkBegins actionKind = iota
	operationEnds
	copyBegins
	adopts
	connects
	sends
	arrives
	crashes
	deletes
	moves
	replicates
	failsOver
	restarts
	backsUp
	restores
	flushes
	forwardsFlush
	putsForeign
	passes
	collectStarts
	collectGoesOn
	collectMisses
	collectStops
	eraseStarts
)

func shardName(i uint8) string { return string(rune('A' + i)) }

// say describes an action that is carried out in a state.
func (m *lifecycle) say(before lifecycleState, a lifecycleAction) string {
	g := fmt.Sprintf("gateway %d", a.gateway+1)
	if m.isPacker(int(a.gateway)) {
		g = "the packer"
	}
	s := "shard " + shardName(a.shard)
	switch a.is {
	case checkBegins:
		return g + " begins to check " + s
	case operationEnds:
		if before.gateways[a.gateway].op.is == copying {
			return g + " gives the copy the state that the dictionary has elsewhere"
		}
		return g + " ends its check of shard " + shardName(before.gateways[a.gateway].op.shard)
	case copyBegins:
		return g + " copies the dictionary to " + s
	case adopts:
		return g + " reads the dictionary, to use it too"
	case connects:
		return g + " connects to " + s
	case sends:
		return fmt.Sprintf("%s sends a value that names the dictionary, for slot %d", g, a.shard+1)
	case arrives:
		return "the server stores the value that " + g + " has sent"
	case crashes:
		return g + " crashes, and starts again"
	case deletes:
		return fmt.Sprintf("a client deletes the value in slot %d", a.shard+1)
	case moves:
		return fmt.Sprintf("slot %d moves to the other shard", a.shard+1)
	case replicates:
		return s + "'s replica receives everything"
	case failsOver:
		return s + " fails over to its replica"
	case restarts:
		return s + " restarts at once, with what it last saved"
	case backsUp:
		return s + " is backed up"
	case restores:
		return s + " is restored from its backup"
	case flushes:
		return "FUNCTION FLUSH, sent to " + s
	case forwardsFlush:
		return "FUNCTION FLUSH, sent to " + s + " through " + g
	case putsForeign:
		return "another program stores something under the dictionary's name in " + s
	case passes:
		return tickText
	case collectStarts:
		return "cinch dict gc begins"
	case collectGoesOn:
		return before.collector.say()
	case collectMisses:
		return "gc scans shard " + shardName(before.collector.shard) + " and misses a value, which is renamed meanwhile"
	case collectStops:
		return "gc is interrupted"
	default:
		return "cinch dict gc --forget begins"
	}
}

// start prepares the model and returns its first state: gateway 1 has trained the dictionary and stored it nowhere.
func (m *lifecycle) start() lifecycleState {
	m.until = map[uint32]time.Duration{}
	m.clock = newReadiness(DefaultLease)
	m.clock.started = time.Now().Add(-time.Hour)
	m.clock.ready.Store(&m.until)
	if m.without.lease {
		m.clock.lease = 24 * time.Hour
	}
	for l := range libraries(32) {
		found := newInventory()
		if l&(live|foreign) != 0 {
			found.live[theDict] = [32]byte{}
		}
		if l&archived != 0 {
			found.archived[theDict] = [32]byte{}
		}
		if l&marked != 0 && !m.without.mark {
			found.marked[theDict], found.erased[theDict] = true, l&erased != 0
		}
		m.retired[l], m.gone[l], m.lost[l] = found.isRetired(theDict), found.isForgotten(theDict), found.isLost(theDict)
	}
	s := lifecycleState{faults: uint8(m.faults), runs: uint8(m.runs), owner: [maxShards]uint8{0, uint8(m.shards - 1)}}
	for g := range m.gateways {
		s.gateways[g] = newGateway()
	}
	for i := range m.shards {
		s.gateways[0].at[i].kept = true
	}
	if m.first == 0 {
		return s
	}
	for i := range m.shards {
		if s.shards[i].now.libs = m.first; m.runs > 0 || m.first == archived {
			s.shards[i].replica.libs = m.first
		}
		for g := range m.gateways {
			s.gateways[g].at[i] = dictsState{
				kept: true, verified: true, ready: m.first == live, connected: true, dialed: longAgo, lostAge: longAgo,
			}
		}
	}
	return s
}

func newGateway() (g gatewayState) {
	for i := range g.at {
		g.at[i].lostAge = longAgo
	}
	return g
}

func (m *lifecycle) isPacker(g int) bool { return m.packs && g == m.gateways-1 }

// steps calls visit for each action that is possible in a state.
func (m *lifecycle) steps(s lifecycleState, visit func(lifecycleAction, lifecycleState)) {
	try := func(is actionKind, gateway, shard int) {
		a, next := lifecycleAction{is, uint8(gateway), uint8(shard)}, s
		if m.do(&next, a) {
			m.normalize(&next)
			if next != s {
				visit(a, next)
			}
		}
	}
	for g := range m.gateways {
		for i := range m.shards {
			for _, is := range []actionKind{checkBegins, copyBegins, connects, sends, forwardsFlush} {
				try(is, g, i)
			}
		}
		for _, is := range []actionKind{operationEnds, adopts, arrives, crashes} {
			try(is, g, 0)
		}
	}
	for i := range m.shards {
		for _, is := range []actionKind{deletes, moves, replicates, failsOver, restarts, backsUp, restores, flushes, putsForeign} {
			try(is, 0, i)
		}
	}
	for _, is := range []actionKind{passes, collectStarts, collectGoesOn, collectMisses, collectStops, eraseStarts} {
		try(is, 0, 0)
	}
}

// do carries out an action, and reports whether it is possible.
func (m *lifecycle) do(s *lifecycleState, a lifecycleAction) bool {
	g, shard := &s.gateways[a.gateway], &s.shards[a.shard]
	d := &g.at[a.shard]
	switch a.is {
	case checkBegins:
		if g.op.is != noOperation || !d.kept || m.cutOff {
			return false
		}
		g.op = operation{is: checking, shard: a.shard, found: shard.now.libs}
	case copyBegins:
		return m.beginCopy(s, g, a.shard)
	case operationEnds:
		if g.op.is == noOperation {
			return false
		}
		m.endOperation(s, g)
	case adopts:
		if g.at[0].kept || !m.isHeldAnywhere(s) {
			return false
		}
		for i := range m.shards {
			g.at[i].kept = true
		}
	case connects:
		return !d.connected && !m.cutOff && m.connect(s, int(a.gateway), a.shard)
	case sends:
		return m.send(s, int(a.gateway), a.shard)
	case arrives:
		if !g.write.is {
			return false
		}
		s.shards[g.write.shard].now.names |= 1 << g.write.slot
		g.write = sent{}
	case crashes:
		if !m.crash || s.faults == 0 {
			return false
		}
		if !m.ignores.keeperRuns && m.isFlushed(s) && m.keepers(s) < 2 {
			return false
		}
		s.faults--
		*g = newGateway()
	case deletes:
		shard := &s.shards[s.owner[a.shard]]
		if shard.now.names&(1<<a.shard) == 0 {
			return false
		}
		shard.now.names &^= 1 << a.shard
	case moves:
		return m.moves && m.move(s, a.shard)
	case replicates:
		if !m.fails {
			return false
		}
		shard.replica = shard.now
	case failsOver:
		if !m.fails || s.faults == 0 {
			return false
		}
		if !m.mayReplace(s, shard.replica) {
			return false
		}
		s.faults--
		m.replace(s, a.shard, shard.replica, false)
	case restarts: // notices come from connections that it closes, so each gateway has one
		if !m.quick || s.faults == 0 {
			return false
		}
		for i := range m.gateways {
			if !s.gateways[i].at[a.shard].connected {
				return false
			}
		}
		s.faults--
		m.replace(s, a.shard, shard.replica, true)
	case backsUp:
		if !m.backups {
			return false
		}
		shard.backup = shard.now
	case restores:
		if !m.backups || s.faults == 0 {
			return false
		}
		if !m.mayReplace(s, shard.backup) {
			return false
		}
		s.faults--
		m.replace(s, a.shard, shard.backup, false)
	case flushes, forwardsFlush:
		if !m.flushes || s.faults == 0 || !m.mayFlush(s) {
			return false
		}
		s.faults--
		m.flush(s, a)
	case putsForeign:
		if !m.foreign || s.faults == 0 || shard.now.libs&live != 0 {
			return false
		}
		s.faults--
		shard.now.libs |= foreign
	case passes:
		return m.pass(s)
	default:
		return m.collect(s, a)
	}
	return true
}

// readable reports whether readers find the dictionary in a server.
func (m *lifecycle) readable(l libraries) bool {
	return l&live != 0 || l&archived != 0 && !m.without.lookInArchive
}

func (m *lifecycle) isHeldAnywhere(s *lifecycleState) bool {
	for i := range m.shards {
		if s.shards[i].now.libs&(live|archived) != 0 {
			return true
		}
	}
	return false
}

func (m *lifecycle) isFlushed(s *lifecycleState) bool {
	return s.shards[0].now.flushed || s.shards[1].now.flushed
}

// keepers counts the gateways that hold the dictionary in memory for all shards.
func (m *lifecycle) keepers(s *lifecycleState) (n int) {
	for g := range m.gateways {
		keeps := true
		for i := range m.shards {
			keeps = keeps && s.gateways[g].at[i].kept
		}
		if keeps {
			n++
		}
	}
	return n
}

// beginCopy stores the dictionary in a shard that lacks it, as in another that holds it. The copy ends with the step
// that gives it the state that it has there.
func (m *lifecycle) beginCopy(s *lifecycleState, g *gatewayState, to uint8) bool {
	if m.without.spread || m.cutOff || m.shards == 1 || g.op.is != noOperation {
		return false
	}
	from, there := s.shards[1-to].now.libs, &s.shards[to].now
	if from&(live|archived) == 0 || there.libs != 0 {
		return false
	}
	there.libs |= live
	d := &g.at[to]
	d.kept, d.verified, d.ready, d.age = true, true, true, 0
	s.cameBack = s.cameBack || s.erasedAll
	g.op = operation{is: copying, shard: to, found: from}
	return true
}

// endOperation is the second half of a check, or of a copy.
func (m *lifecycle) endOperation(s *lifecycleState, g *gatewayState) {
	op := g.op
	g.op = operation{}
	shard, d := &s.shards[op.shard], &g.at[op.shard]
	l := &shard.now.libs
	if op.is == copying {
		switch {
		case op.found&live == 0: // Archive: one step here, since it is at every moment live or archived
			*l = *l&^(live|marked) | archived
		case op.found&marked != 0:
			*l |= marked
		}
		m.checked(s, op)
		return
	}
	keeps := d.kept
	switch {
	case m.retired[op.found]:
		if m.gone[op.found] {
			d.kept, d.verified = false, false
		}
		if m.lost[op.found] && d.kept {
			m.put(s, op.shard, d)
		}
		d.ready = false
	case op.found&live != 0 && d.verified:
		d.ready, d.age = true, op.age
	default:
		d.ready = m.put(s, op.shard, d)
		d.age = op.age
	}
	d.doubted = op.doubted
	if keeps {
		m.checked(s, op)
		d.told = d.told && op.told
	}
}

// put is dictBackends.put. It reports whether the dictionary was read back.
func (m *lifecycle) put(s *lifecycleState, i uint8, d *dictsState) bool {
	l := &s.shards[i].now.libs
	switch {
	case *l&foreign != 0:
		d.verified = m.without.readBack
		return m.without.readBack
	case *l&live == 0 && d.verified && m.without.restore:
		return false
	case *l&live == 0:
		*l |= live
		s.cameBack = s.cameBack || s.erasedAll
	}
	d.verified = true
	return true
}

// checked records that a gateway has checked a shard, and stored what it lacked.
func (m *lifecycle) checked(s *lifecycleState, op operation) {
	shard := &s.shards[op.shard]
	if op.stale {
		return
	}
	shard.now.flushed = false
	if shard.now.libs&(live|archived) != 0 || !m.isHeldAnywhere(s) {
		shard.unchecked = false
	}
}

// connect opens a gateway's connection to a shard.
func (m *lifecycle) connect(s *lifecycleState, g int, i uint8) bool {
	d, l := &s.gateways[g].at[i], &s.shards[i].now.libs
	d.connected, d.dialed = true, 0
	if !m.isPacker(g) || m.without.ensure || !d.kept {
		return true
	}
	if *l&foreign != 0 {
		return false
	}
	if *l&live == 0 && !m.retired[*l] {
		*l |= live
		s.cameBack = s.cameBack || s.erasedAll
	}
	return true
}

// decides returns the readiness of a gateway for a shard.
func (m *lifecycle) decides(d *dictsState) *readiness {
	const now = time.Hour
	r := m.clock
	delete(m.until, theDict)
	if d.ready {
		m.until[theDict] = now - time.Duration(d.age)*instant + r.lease
	}
	r.kicks.Store(0)
	if d.doubted {
		r.kicks.Store(1)
	}
	r.lost.Store(int64(now - time.Duration(d.lostAge)*instant))
	return r
}

// mayName reports whether a gateway's value may name the dictionary on its connection to a shard.
func (m *lifecycle) mayName(s *lifecycleState, g int, i uint8) bool {
	at := &s.gateways[g].at
	if m.shards > 1 && !m.without.allShards && !m.decides(&at[1-i]).Ready(theDict) {
		return false
	}
	r := m.decides(&at[i])
	if m.isPacker(g) || m.without.serverChange {
		return r.Ready(theDict)
	}
	return r.ReadyOn(theDict, r.started.Add(time.Hour-time.Duration(at[i].dialed)*instant))
}

func (m *lifecycle) send(s *lifecycleState, g int, slot uint8) bool {
	i, from := s.owner[slot], &s.gateways[g]
	if from.write.is || int(slot) >= m.shards || !from.at[i].connected || !m.mayName(s, g, i) {
		return false
	}
	from.write = sent{is: true, slot: slot, shard: i}
	s.namedAfter = s.namedAfter || from.at[i].told && !m.readable(s.shards[i].now.libs)
	return true
}

// move moves a slot to the other shard. A write on its way to the slot is answered MOVED.
func (m *lifecycle) move(s *lifecycleState, slot uint8) bool {
	from, to := &s.shards[s.owner[slot]], &s.shards[1-s.owner[slot]]
	if !m.ignores.moveWhenChecked && (to.unchecked || to.now.flushed) {
		return false
	}
	bit := uint8(1) << slot
	to.now.names = to.now.names&^bit | from.now.names&bit
	from.now.names &^= bit
	s.owner[slot] = 1 - s.owner[slot]
	s.collector.moved = s.collector.phase != notCollecting
	for g := range s.gateways {
		if s.gateways[g].write.slot == slot {
			s.gateways[g].write = sent{}
		}
	}
	return true
}

// replace has another server take a shard's place. The connections to the former lead nowhere; noticed: gateways see
// them end.
func (m *lifecycle) replace(s *lifecycleState, i uint8, by stored, noticed bool) {
	shard := &s.shards[i]
	for slot := range s.owner {
		if s.owner[slot] != i {
			by.names &^= 1 << slot
		}
	}
	shard.now, shard.replica = by, by
	shard.unchecked = true
	s.erasedAll = false
	switch {
	case noticed:
		m.age(s, instant)
	case !m.ignores.aSecond:
		m.age(s, time.Second)
	}
	for g := range m.gateways {
		of := &s.gateways[g]
		if noticed && of.at[i].connected && !m.without.lost {
			of.at[i].lostAge = 0
		}
		of.at[i].connected, of.at[i].told = false, false
		of.op.stale = of.op.stale || of.op.is != noOperation && of.op.shard == i
		if of.write.shard == i {
			of.write = sent{}
		}
	}
}

// mayFlush reports whether the documents allow a FUNCTION FLUSH.
func (m *lifecycle) mayFlush(s *lifecycleState) bool {
	return (m.ignores.keeperRuns || m.keepers(s) > 0) &&
		(m.ignores.sameServer || !s.collector.archives())
}

// mayReplace reports whether the documents allow that another server takes a shard's place now.
func (m *lifecycle) mayReplace(s *lifecycleState, by stored) bool {
	c := s.collector.phase
	late := c == deciding || c >= archiving
	return (m.ignores.sameServer || !s.collector.archives()) &&
		(m.ignores.keeperRuns || !by.flushed || m.keepers(s) > 0) &&
		(m.ignores.shortLag || !late || by.libs&(marked|archived) != 0)
}

func (m *lifecycle) flush(s *lifecycleState, a lifecycleAction) {
	shard := &s.shards[a.shard]
	shard.now.libs, shard.now.flushed, s.erasedAll = 0, true, false
	for g := range m.gateways {
		of := &s.gateways[g]
		if of.op.is != noOperation && of.op.shard == a.shard {
			of.op.stale = true
		}
		if a.is == forwardsFlush && g == int(a.gateway) {
			d := &of.at[a.shard]
			d.told = true
			of.op.told = of.op.is != noOperation && of.op.shard == a.shard
			if !m.without.kick {
				d.doubted = true
				of.op.doubted = of.op.is != noOperation && of.op.shard == a.shard
			}
		}
	}
}

// pass has 30 seconds pass. A write that was on its way for as long must arrive first.
func (m *lifecycle) pass(s *lifecycleState) bool {
	for g := range m.gateways {
		if w := &s.gateways[g].write; w.is && w.late {
			return false
		}
	}
	for g := range m.gateways {
		w := &s.gateways[g].write
		w.late = w.is
	}
	m.age(s, tick)
	if s.collector.wait > 0 {
		s.collector.wait--
	}
	return true
}

// age makes everything older.
func (m *lifecycle) age(s *lifecycleState, by time.Duration) {
	older := func(age *uint16) { *age = min(*age+uint16(by/instant), longAgo) }
	for g := range m.gateways {
		older(&s.gateways[g].op.age)
		for i := range m.shards {
			d := &s.gateways[g].at[i]
			older(&d.age)
			older(&d.dialed)
			older(&d.lostAge)
		}
	}
}

// normalize makes states equal that differ only in what no longer matters.
func (m *lifecycle) normalize(s *lifecycleState) {
	for g := range m.gateways {
		op := &s.gateways[g].op
		if op.is == noOperation {
			*op = operation{}
		}
		if op.is == copying {
			op.age, op.doubted = 0, false
		}
		for i := range m.shards {
			d := &s.gateways[g].at[i]
			if d.ready && time.Duration(d.age)*instant >= m.clock.lease {
				d.ready = false
			}
			oldest := uint16(0)
			if d.ready {
				oldest = d.age
			} else {
				d.age = 0
			}
			if op.is == checking && int(op.shard) == i {
				oldest = max(oldest, op.age)
			}
			if !d.connected {
				d.dialed = 0
			} else if d.dialed >= oldest {
				d.dialed = longAgo
			}
			if d.lostAge >= oldest {
				d.lostAge = longAgo
			}
		}
	}
	if !m.moves {
		s.collector.moved = false
	}
}
