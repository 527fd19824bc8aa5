package redis

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The life cycle of a dictionary, explored by machine: docs/LIFECYCLE.md has the model, and the results of
//
//	go test ./internal/store/redis -run '^TestLifecycle' -v

var lifecycleStates = flag.Int("lifecycle.states", 100_000, "limits the states that TestLifecycle explores in each scenario")

// The invariants.
const (
	lacks     = "a value names a dictionary that its shard lacks"
	inUse     = "a dictionary is archived that a value names"
	cameBack  = "a gateway has stored a dictionary again that was erased"
	flushedBy = "a gateway names a dictionary that a FUNCTION FLUSH has removed which it forwarded"
)

// The scenarios: combinations of what may happen to a dictionary, each small enough to be explored.
var (
	exchange   = lifecycle{shards: 2, gateways: 1, moves: true}
	twoGates   = lifecycle{shards: 1, gateways: 2}
	failover   = lifecycle{shards: 1, gateways: 1, fails: true, faults: 2}
	restart    = lifecycle{shards: 1, gateways: 1, fails: true, quick: true, faults: 1}
	failoverOf = lifecycle{shards: 2, gateways: 1, first: live, fails: true, moves: true, faults: 1}
	restoreOf  = lifecycle{shards: 2, gateways: 1, first: live, backups: true, moves: true, crash: true, faults: 2}
	packer     = lifecycle{shards: 1, gateways: 2, packs: true, fails: true, faults: 1}
	collision  = lifecycle{shards: 1, gateways: 1, foreign: true, faults: 1}
	flush      = lifecycle{shards: 1, gateways: 2, flushes: true, crash: true, faults: 2}
	gc         = lifecycle{shards: 1, gateways: 1, runs: 2, faults: 1}
	gcTwo      = lifecycle{shards: 1, gateways: 2, first: live, runs: 1}
	gcExchange = lifecycle{shards: 2, gateways: 1, first: live, runs: 1, moves: true}
	gcFailover = lifecycle{shards: 1, gateways: 1, first: live, runs: 1, fails: true, erases: true, faults: 1}
	gcRestore  = lifecycle{shards: 1, gateways: 1, first: live, runs: 1, backups: true, erases: true, faults: 1}
	gcFlush    = lifecycle{shards: 1, gateways: 1, first: live, runs: 1, flushes: true, faults: 1}
	gcRename   = lifecycle{shards: 1, gateways: 1, runs: 2, renames: true, erases: true}
	erase      = lifecycle{shards: 1, gateways: 1, runs: 1, erases: true, faults: 1}
	eraseTwo   = lifecycle{shards: 2, gateways: 1, first: archived, erases: true, backups: true, faults: 1}
	everything = lifecycle{
		shards: 2, gateways: 2, packs: true, first: live, faults: 3, runs: 1,
		moves: true, fails: true, backups: true, flushes: true, crash: true, erases: true,
	}
	gcCutOff = lifecycle{shards: 2, gateways: 1, first: live, runs: 1, moves: true, cutOff: true}
)

// With all protections, and under the documented conditions, no state breaks an invariant.
func TestLifecycle(t *testing.T) {
	for _, c := range []struct {
		name string
		m    lifecycle
	}{
		{"two shards that exchange values", exchange},
		{"two gateways", twoGates},
		{"two failovers to a replica that lags", failover},
		{"a restart in an instant", restart},
		{"failover of one shard of two", failoverOf},
		{"restore of one shard of two, a gateway crashes", restoreOf},
		{"a gateway and a packer, failover", packer},
		{"another program's library", collision},
		{"FUNCTION FLUSH, a gateway crashes", flush},
		{"gc twice, interrupted", gc},
		{"gc, two gateways", gcTwo},
		{"gc, two shards that exchange values", gcExchange},
		{"gc, the same, gateways cut off", gcCutOff},
		{"gc and --forget, failover", gcFailover},
		{"gc and --forget, restore", gcRestore},
		{"gc, FUNCTION FLUSH", gcFlush},
		{"gc and --forget, renamed keys", gcRename},
		{"gc and --forget, interrupted", erase},
		{"--forget, two shards, restore of one", eraseTwo},
		{"all of these, two shards, a gateway and a packer", everything},
	} {
		states := *lifecycleStates
		if testing.Short() {
			states = 10_000
		}
		r := exploreLifecycle(t, c.m, states)
		if r.broken != "" {
			t.Errorf("%s: %s\n%s", c.name, r.broken, r.text())
			continue
		}
		t.Logf("%s: %s", c.name, r.reached())
	}
}

// Without a protection an invariant breaks.
func TestLifecycleNeedsProtections(t *testing.T) {
	for _, c := range []struct {
		name    string
		m       lifecycle
		without protections
		want    string
	}{
		{"the lease", gc, protections{lease: true}, inUse},
		{"the lease, and --forget", erase, protections{lease: true}, lacks},
		{"the dictionary on all shards", exchange, protections{allShards: true}, lacks},
		{"reading back", collision, protections{readBack: true}, lacks},
		{"restoring", flush, protections{restore: true}, lacks},
		{"a new check for a new connection", failover, protections{serverChange: true}, lacks},
		{"notice of lost connections", restart, protections{lost: true}, lacks},
		{"a check after a forwarded flush", flush, protections{kick: true}, flushedBy},
		{"the packer's check of its connections", packer, protections{ensure: true}, lacks},
		{"heeding the mark", gc, protections{mark: true}, inUse},
		{"heeding the mark, and --forget", erase, protections{mark: true}, cameBack},
		{"gc's wait", gc, protections{wait: true}, inUse},
		{"gc's wait, and --forget", erase, protections{wait: true}, lacks},
		{"gc's second scan", gc, protections{secondScan: true}, inUse},
		{"gc's look at the layout", gcCutOff, protections{layout: true}, inUse},
		{"archiving before removing", gcRename, protections{archiveFirst: true}, lacks},
		{"readers' look into the archive", gcRename, protections{lookInArchive: true}, lacks},
	} {
		m := c.m
		m.without = c.without
		expectBroken(t, "without "+c.name, m, c.want)
	}
	if !testing.Short() { // it takes most of the time
		m := gcFailover
		m.without.stillRetired = true
		expectBroken(t, "without gc's second look at the mark", m, lacks)
	}
}

// If a documented condition is not met, an invariant breaks.
func TestLifecycleNeedsConditions(t *testing.T) {
	for _, c := range []struct {
		name    string
		m       lifecycle
		ignores conditions
		want    string
	}{
		{"a slot moves to a shard that was not checked after a failover", failoverOf, conditions{moveWhenChecked: true}, lacks},
		{"no second passes in a failover", failover, conditions{aSecond: true}, lacks},
		{"the last gateway crashes after FUNCTION FLUSH", flush, conditions{keeperRuns: true}, lacks},
		{"FUNCTION FLUSH while gc archives", gcFlush, conditions{sameServer: true}, lacks},
		{"a failover while gc archives, to a replica that lacks the mark", gcFailover, conditions{shortLag: true, sameServer: true}, lacks},
		{"--forget while a gateway checks a shard that lacks the dictionary", eraseTwo, conditions{noCheckMeanwhile: true}, cameBack},
		{"--forget after a value was renamed during a scan", gcRename, conditions{renameAndErase: true}, lacks},
	} {
		m := c.m
		m.ignores = c.ignores
		expectBroken(t, c.name, m, c.want)
	}
}

// These protections serve something else than the invariants: without one of them nothing breaks.
func TestLifecycleNeedsNot(t *testing.T) {
	for _, c := range []struct {
		name    string
		m       lifecycle
		without protections
	}{
		{"notice of lost connections, if a second passes", failover, protections{lost: true}},
		{"gc's first scan", gc, protections{firstScan: true}},
		{"gc's second scan, for --forget", erase, protections{secondScan: true}},
		{"the scan of --forget, if no key was renamed", erase, protections{eraseScan: true}},
		{"copies between shards, if slots move to checked shards only", restoreOf, protections{spread: true}},
	} {
		m := c.m
		m.without = c.without
		r := exploreLifecycle(t, m, 60_000)
		if r.broken != "" {
			t.Errorf("without %s: %s\n%s", c.name, r.broken, r.text())
			continue
		}
		t.Logf("without %s: %s", c.name, r.reached())
	}
}

func expectBroken(t *testing.T, name string, m lifecycle, want string) {
	t.Helper()
	r := exploreLifecycle(t, m, 500_000)
	if r.broken != want {
		t.Errorf("%s: %q after %d states of depth %d, not %q\n%s", name, r.broken, r.states, r.depth, want, r.text())
		return
	}
	t.Logf("%s: %s, after %d steps (%d states)\n%s", name, want, len(r.trace), r.states, r.text())
}

// exploreLifecycle explores a scenario while the clock stands still.
func exploreLifecycle(t *testing.T, m lifecycle, states int) (r explored) {
	synctest.Test(t, func(*testing.T) { r = explore(m.start(), m.steps, m.broken, m.say, states) })
	return r
}

// reached says how many states there were, and whether these were all.
func (r *explored) reached() string {
	all := ""
	if r.complete {
		all = ", all"
	}
	return fmt.Sprintf("%d states, depth %d%s", r.states, r.depth, all)
}

// text returns the trace, one step a line, and adds up the time that passes.
func (r *explored) text() string {
	var b strings.Builder
	passed := time.Duration(0)
	for i, line := range r.trace {
		if line == tickText {
			passed += tick
			if i+1 < len(r.trace) && r.trace[i+1] == tickText {
				continue
			}
			line, passed = passed.String()+" pass", 0
		}
		b.WriteString("\t" + line + "\n")
	}
	return b.String()
}
