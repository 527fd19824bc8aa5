package memory

import (
	"time"

	"github.com/cinch-layer/cinch/internal/system/panics"
)

// While an account wants more of a budget than is free, the peers of all holders are checked at the same time. A
// peer is disconnected in two cases:
//
//   - It has moved less than a minimum for some seconds.
//   - Its message holds memory beyond the share of its connection (it has a turn), and receiving or sending that
//     message takes much longer than its claim justifies. Only the time counts during which another account waits
//     for its turn. Until then a client may read as slowly as it likes, above the minimum.
//
// Progress is the number of bytes that the peer's machine has sent or acknowledged while the gateway waited for it, as
// counted by the kernel (gateway/tcpinfo_linux.go). So a byte now and then does not save a peer, and time spent
// waiting for a slow server or in the gateway's own queues does not count against one. A slow reader makes visible
// progress, although the kernel lets the gateway write only now and then.
const (
	// MinPace is the speed that a peer must keep while others wait, in bytes a second.
	MinPace = 16 << 10
	// turnPace and turnTime limit how long a message beyond the share of its connection may keep others
	// waiting for their turn: turnTime plus the time that its claim takes at turnPace, in bytes a second.
	turnPace = 1 << 20
	turnTime = 10 * time.Second
	// stallCheckPeriod is the time between two checks.
	stallCheckPeriod = 250 * time.Millisecond
)

// Flow measures the progress of one account, and can disconnect it.
type Flow interface {
	// Progress returns how many bytes the peers have sent and taken so far.
	Progress() int64
	// Patience returns how long a peer may move less than the minimum.
	Patience() time.Duration
	// Cut disconnects the peers. It is called from another goroutine, perhaps repeatedly, and must not wait.
	Cut(StallReason)
}

// StallReason explains why a connection is cut off.
type StallReason struct {
	Peer  Peer          // the peer waited for
	Held  int64         // bytes of the budget
	Moved int64         // bytes
	In    time.Duration // time spent waiting for the peer
	Turn  bool          // it moved enough, but kept others waiting for their turn for too long
}

// progressRecord records how long an account has waited for its peer, and how much the peer moved meanwhile. The peer
// is assessed by stretches of waiting, each as long as the flow's Patience.
type progressRecord struct {
	begun  bool
	base   int64         // progress when the stretch began
	waited time.Duration // time spent waiting for the peer since then
	slow   bool          // the previous stretch was too slow
	turn   time.Duration // time waiting for the peer while others waited for this account's turn
}

// add records a progress sample; waited is the time spent waiting for the peer since the last one. It reports
// whether the peer has been too slow for a whole stretch, and still is.
func (r *progressRecord) add(progress int64, waited, patience time.Duration) (slow bool) {
	if !r.begun {
		r.begun, r.base = true, progress
		return false
	}
	r.waited += waited
	slow = progress-r.base < int64(MinPace*r.waited.Seconds())
	if r.waited < patience {
		return slow && r.slow
	}
	r.base, r.waited, r.slow = progress, 0, slow
	return slow
}

// isTurnTooLong reports whether a turn for a claim takes too long.
func (r *progressRecord) isTurnTooLong(claim int64) bool {
	return r.turn > turnTime+time.Duration(float64(claim)/turnPace*float64(time.Second))
}

// demand records which accounts wanted more of a budget than was free.
type demand struct {
	by   *Account
	many bool // other accounts too
}

func (p *demand) add(a *Account) {
	p.many = p.many || p.by != nil && p.by != a
	p.by = a
}

// byOthersThan reports whether an account other than a wanted more. No account is cut off because of its own
// demand.
func (p *demand) byOthersThan(a *Account) bool { return p.many || p.by != nil && p.by != a }

// stallDetector checks the holders of a budget while an account waits or more than half of the budget is in use.
// The budget's mu guards it.
type stallDetector struct {
	of      *Budget
	wanted  demand // since the last check
	looking bool
}

// noteDemand records that a wants more than is free. The budget's mu must be held.
func (d *stallDetector) noteDemand(a *Account) {
	d.wanted.add(a)
	d.begin()
}

// noteWaiters records the accounts that still wait. The budget's mu must be held.
func (d *stallDetector) noteWaiters() {
	for _, s := range d.of.shares {
		for _, w := range s.waiters {
			if d.wanted.add(w.account); d.wanted.many {
				return
			}
		}
	}
}

// begin starts the checks, which end when there is no reason for them. The budget's mu must be held.
func (d *stallDetector) begin() {
	if !d.looking {
		d.looking = true
		go d.run()
	}
}

// run checks the holders every stallCheckPeriod, until there is no reason for it or it panics. begin starts it again.
func (d *stallDetector) run() {
	defer panics.Catch(nil, nil, d.stop) // counted for no gateway: all share it, and a Flow recovers and counts by itself
	tick := time.NewTicker(stallCheckPeriod)
	defer tick.Stop()
	last := time.Now()
	for now := range tick.C {
		passed := min(now.Sub(last), 2*stallCheckPeriod) // without time in which the process was suspended
		if last = now; !d.check(passed) {
			return
		}
	}
}

func (d *stallDetector) stop() {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	d.looking = false
}

// sample is the progress of one account at one moment.
type sample struct {
	account  *Account
	peer     Peer
	progress int64
}

// check checks all holders; passed is the time since the last check. It reports whether to check again.
func (d *stallDetector) check(passed time.Duration) bool {
	looks := d.samples()
	for i := range looks {
		looks[i].progress = looks[i].account.flow.Progress() // a system call, so without the lock
	}
	cut, again := d.decide(looks, passed)
	for _, f := range cut {
		f()
	}
	return again
}

// decide returns functions that cut off the peers that are too slow, and whether to check again.
func (d *stallDetector) decide(looks []sample, passed time.Duration) (cut []func(), again bool) {
	b := d.of
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := d.wanted
	d.wanted = demand{}
	d.noteWaiters()
	for i := range looks {
		l := &looks[i]
		if v, stalled := l.verdict(passed); stalled && wanted.byOthersThan(l.account) {
			cut = append(cut, func() { l.account.flow.Cut(v) })
		}
	}
	d.looking = b.waiting > 0 || wanted.by != nil || b.isHalfUsed()
	return cut, d.looking
}

// samples returns the holders that wait for a peer.
func (d *stallDetector) samples() (looks []sample) {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	for a := d.of.holders.first; a != nil; a = a.nextOne {
		if p := a.awaited(); p != 0 {
			looks = append(looks, sample{account: a, peer: p})
		}
	}
	return looks
}

// turnAwaited reports whether an account waits for what a has beyond its share: a part of the reserve, or an
// oversize place. The budget's mu must be held.
func (d *stallDetector) turnAwaited(a *Account) bool {
	overcommit := &d.of.overcommit
	oversize := overcommit.isOversize(a)
	for _, s := range d.of.shares {
		if oversize && s != a.client.of && overcommit.hasPlace() {
			continue // one place is free, so its waiters do not wait for a's
		}
		for _, w := range s.waiters {
			if w.account != a && oversize == (overcommit.isLarge(w.claim) || w.account.promised > 0) {
				return true
			}
		}
	}
	return false
}

// verdict reports whether to cut off the peer. The budget's mu must be held.
func (s *sample) verdict(passed time.Duration) (v StallReason, stalled bool) {
	a := s.account
	if a.closed || a.shared+a.extra == 0 || a.awaits.Load() == 0 { // changed since the sample was taken
		return v, false
	}
	v = StallReason{Peer: s.peer, Held: a.shared + a.extra, Moved: s.progress - a.progress.base, In: a.progress.waited + passed}
	slow := a.progress.add(s.progress, passed, a.flow.Patience())
	if a.claim > 0 && a.budget().stalls.turnAwaited(a) {
		a.progress.turn += passed
		v.Turn = !slow && a.progress.isTurnTooLong(a.claim)
	}
	return v, slow || v.Turn
}
