package gateway

import (
	"time"
)

// While somebody wants more of a budget than there is, the peers of all who hold some are judged,
// all of them at once: who has moved less than a minimum for some seconds is cut off, and so is who
// has been let go beyond its share and takes much longer than a claim like its own should, in coming or
// in going. Of such a turn only that time counts in which somebody waited for it: a client may read as
// slowly as it likes, at more than the minimum, until then.
//
// What counts is what the other machine has sent, or has said that it has got, as the kernel knows
// it (moved_linux.go), and the time in which it was waited for. So neither a byte now and then
// nor a slow server, nor waiting in our own queues, makes a difference, and a reader that takes a
// little at a time is seen to do so although the kernel lets us write only now and then.
const (
	// MinPace is what a peer has to move while others wait, in bytes a second.
	MinPace = 16 << 10
	// turnPace and turnTime bound how long a message that is let beyond the share of its connection
	// may have others wait for their turn: turnTime, and its claim at turnPace, in bytes a second.
	turnPace = 1 << 20
	turnTime = 10 * time.Second
	// judgePeriod is the time between two looks.
	judgePeriod = 250 * time.Millisecond
)

// Flow is the way that the bytes of an account take.
type Flow interface {
	// Progress is how many bytes the peers have sent and taken so far.
	Progress() int64
	// Patience is for how long less than the minimum may move.
	Patience() time.Duration
	// Cut ends it. It is called once for each verdict, from another goroutine, and must not wait.
	Cut(Verdict)
}

// Verdict is why a connection is cut off.
type Verdict struct {
	Peer  Peer          // whom it waited for
	Held  int64         // bytes of the budget
	Moved int64         // bytes
	In    time.Duration // time of waiting for the peer
	Turn  bool          // it moved enough, but took others' turn for too long
}

// trial is what the judge has seen of an account: how long its peer was waited for, and what it
// moved meanwhile. It is judged by stretches of waiting, each as long as the patience with it.
type trial struct {
	begun  bool
	base   int64         // progress when the stretch began
	waited time.Duration // since then
	slow   bool          // the stretch before was
	turn   time.Duration // of waiting for the peer while others waited for the turn that the account has
}

// add takes notice of a look, after a time in which the peer was waited for. It reports whether the
// peer has been too slow for a whole stretch, and still is.
func (t *trial) add(progress int64, waited, patience time.Duration) (slow bool) {
	if !t.begun {
		t.begun, t.base = true, progress
		return false
	}
	t.waited += waited
	slow = progress-t.base < int64(MinPace*t.waited.Seconds())
	if t.waited < patience {
		return slow && t.slow
	}
	t.base, t.waited, t.slow = progress, 0, slow
	return slow
}

// lingers reports whether a turn for a claim takes too long.
func (t *trial) lingers(claim int64) bool {
	return t.turn > turnTime+time.Duration(float64(claim)/turnPace*float64(time.Second))
}

// pressure is who wanted more of a budget than there was.
type pressure struct {
	by   *Account
	many bool // others too
}

func (p *pressure) add(a *Account) {
	p.many = p.many || p.by != nil && p.by != a
	p.by = a
}

// byOthersThan reports whether somebody else wanted more. Nobody is cut off for what its own connection
// wants.
func (p *pressure) byOthersThan(a *Account) bool { return p.many || p.by != nil && p.by != a }

// judge is who looks at the holders of a budget while there is a reason to. The budget's mu guards it.
type judge struct {
	of      *Budget
	pressed pressure // since the last look
	looking bool
}

// press notes that a wants more than there is. The mu is held.
func (j *judge) press(a *Account) {
	j.pressed.add(a)
	j.begin()
}

// pressAgain notes who waits still. The mu is held.
func (j *judge) pressAgain() {
	for _, s := range j.of.shares {
		for _, w := range s.waiters {
			if j.pressed.add(w.account); j.pressed.many {
				return
			}
		}
	}
}

// begin begins to look, until there is no reason to. The mu is held.
func (j *judge) begin() {
	if !j.looking {
		j.looking = true
		go j.run()
	}
}

// run ends after a panic too, until an account waits for memory again.
func (j *judge) run() {
	defer CatchPanic(nil, nil, j.stop) // of all gateways; what is a gateway's recovers and counts by itself
	tick := time.NewTicker(judgePeriod)
	defer tick.Stop()
	last := time.Now()
	for now := range tick.C {
		passed := min(now.Sub(last), 2*judgePeriod) // not what this process slept
		if last = now; !j.lookOnce(passed) {
			return
		}
	}
}

func (j *judge) stop() {
	j.of.mu.Lock()
	defer j.of.mu.Unlock()
	j.looking = false
}

// look is one account at one moment.
type look struct {
	account  *Account
	peer     Peer
	progress int64
}

// lookOnce judges all holders after a time has passed. It reports whether to look again.
func (j *judge) lookOnce(passed time.Duration) bool {
	looks := j.waitedFor()
	for i := range looks {
		looks[i].progress = looks[i].account.flow.Progress() // asks the kernel, so without the lock
	}
	cut, again := j.decide(looks, passed)
	for _, f := range cut {
		f()
	}
	return again
}

// decide returns what cuts off the peers that are too slow, and whether to look again.
func (j *judge) decide(looks []look, passed time.Duration) (cut []func(), again bool) {
	b := j.of
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := j.pressed
	j.pressed = pressure{}
	j.pressAgain()
	for i := range looks {
		l := &looks[i]
		if v, guilty := l.verdict(passed); guilty && wanted.byOthersThan(l.account) {
			cut = append(cut, func() { l.account.flow.Cut(v) })
		}
	}
	j.looking = b.waiting > 0 || wanted.by != nil || b.isHalfUsed()
	return cut, j.looking
}

// waitedFor lists the holders that wait for a peer.
func (j *judge) waitedFor() (looks []look) {
	j.of.mu.Lock()
	defer j.of.mu.Unlock()
	for a := j.of.holders.first; a != nil; a = a.nextOne {
		if p := a.awaited(); p != 0 {
			looks = append(looks, look{account: a, peer: p})
		}
	}
	return looks
}

// turnAwaited reports whether somebody waits for what a has beyond its share: a part of the reserve, or the place
// of an oversize one. The mu is held.
func (j *judge) turnAwaited(a *Account) bool {
	turns := &j.of.turns
	oversize := turns.isOversize(a)
	for _, s := range j.of.shares {
		if oversize && s != a.client.of && turns.hasPlace() {
			continue // it waits for another one of its own gateway
		}
		for _, w := range s.waiters {
			if w.account != a && oversize == (turns.isLarge(w.claim) || w.account.promised > 0) {
				return true
			}
		}
	}
	return false
}

// verdict says whether the peer is to be cut off. The budget's mu is held.
func (l *look) verdict(passed time.Duration) (v Verdict, guilty bool) {
	a := l.account
	if a.closed || a.shared+a.extra == 0 || a.awaits.Load() == 0 { // in the meantime
		return v, false
	}
	v = Verdict{Peer: l.peer, Held: a.shared + a.extra, Moved: l.progress - a.trial.base, In: a.trial.waited + passed}
	slow := a.trial.add(l.progress, passed, a.flow.Patience())
	if a.claim > 0 && a.budget().judge.turnAwaited(a) {
		a.trial.turn += passed
		v.Turn = !slow && a.trial.lingers(a.claim)
	}
	return v, slow || v.Turn
}
