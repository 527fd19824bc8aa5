package dictionary

import (
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
)

// dueChecker returns a function that compares what is due with what is wanted.
func dueChecker(t *testing.T, p *schedule, now *time.Time) func(samples int, full bool, want string) {
	return func(samples int, full bool, want string) {
		t.Helper()
		if got := p.due(*now, samples, full); got != want {
			t.Errorf("due with %d samples: %q, want %q", samples, got, want)
		}
	}
}

func TestSchedule(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	p := schedule{interval: 10 * time.Minute, drift: 0.15, minSamples: 2000}
	due := dueChecker(t, &p, &now)
	stored := func(values uint64, ratio float64, wantDrift bool) {
		t.Helper()
		if began := p.observe(reservoir.Snapshot{Values: values, RawBytes: values * 1000, StoredBytes: uint64(float64(values) * 1000 * ratio)}); began != wantDrift {
			t.Errorf("drift %v at %.3f of %.3f, want %v", began, p.observed, p.promised, wantDrift)
		}
	}
	due(1999, false, "")
	due(2000, false, reasonFirst)
	due(31, true, "")
	due(32, true, reasonFirst) // large values: no more fit

	p.refused(now, false, false)
	due(2000, false, "")
	now = now.Add(20*time.Minute - 1)
	due(2000, false, "")
	now = now.Add(1)
	due(2000, false, reasonFirst)
	for range 20 {
		p.refused(now, false, false)
	}
	if p.wait != 64*p.interval {
		t.Errorf("waits %v", p.wait)
	}

	p.rolledOut(now, 0.30)
	due(5000, false, "")
	stored(100, 0.9, false) // too few to mean anything
	p.rolledOut(now, 0.30)
	stored(5000, 0.34, false) // 13 % worse
	for range 20 {
		stored(100, 0.34, false)
	}
	stored(100, 0.9, true)
	stored(100, 0.9, false) // reported once
	due(1999, false, "")
	due(2000, false, "") // the minimum wait
	now = now.Add(p.interval / 10)
	due(2000, false, reasonDrift)

	// No better dictionary is found: the observed ratio becomes the promised one.
	for range 50 {
		stored(1000, 0.6, false)
	}
	p.refused(now, false, false)
	now = now.Add(time.Hour)
	stored(1000, 0.61, false)
	due(2000, false, "")
	stored(5000, 0.8, true)
	due(2000, false, reasonDrift)

	p.failed(now, false)
	due(2000, false, "")
	now = now.Add(p.interval)
	due(2000, false, reasonDrift)
	p.lost()
	due(2000, false, reasonFirst)
}

// Where no dictionary is of use, quick trainings look for values of another shape, while thorough ones wait longer and
// longer.
func TestScheduleLooks(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	p := schedule{interval: 10 * time.Minute, drift: 0.15, minSamples: 100}
	due := dueChecker(t, &p, &now)
	p.refused(now, false, true)
	ends := now.Add(p.wait)
	if p.wait != 20*time.Minute {
		t.Errorf("waits %v", p.wait)
	}
	due(99, false, "")
	due(100, false, "")
	for now = now.Add(time.Minute); now.Before(ends); now = now.Add(time.Minute) {
		due(100, false, reasonFirst)
		if !p.looks(now) {
			t.Fatalf("%v before the end it does not look only", ends.Sub(now))
		}
		p.refused(now, true, true)
		due(100, false, "")
	}
	due(100, false, reasonFirst)
	if p.looks(now) {
		t.Error("it only looks when a thorough training is due")
	}
	p.grows(now, 100, true) // the quick one has found nothing: the thorough one need not wait again
	now = now.Add(time.Minute)
	due(100, false, "")
	due(1000, false, reasonMore)
	if p.looks(now) {
		t.Error("it only looks when the thorough training is due")
	}
	p.refused(now, false, true)
	if p.wait != 40*time.Minute {
		t.Errorf("waits %v", p.wait)
	}
	now = now.Add(time.Minute)
	p.rolledOut(now, 0.3)
	if now = now.Add(time.Minute); p.looks(now) {
		t.Error("it looks beside a dictionary that fits")
	}
	due(100, false, "")
}

// A training that only looks may end after the wait: it is still not the thorough one that the wait was for.
func TestScheduleLooksAtTheEndOfTheWait(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	p := schedule{interval: 10 * time.Minute, drift: 0.15, minSamples: 100}
	p.refused(now, false, true)
	now = now.Add(p.wait + time.Second)
	p.refused(now, true, true)
	if p.waits(now) || p.wait != 20*time.Minute {
		t.Errorf("waits %v again", p.wait)
	}
	p.failed(now, true)
	if p.waits(now) {
		t.Error("waits again")
	}
}

// A dictionary that a thorough training finds at last is watched from then on, however long it was looked for.
func TestScheduleAfterLooking(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	p := schedule{interval: 10 * time.Minute, drift: 0.15, minSamples: 100}
	for range 6 {
		p.refused(now, false, true)
		now = now.Add(p.wait)
	}
	p.grows(now, 100, true)
	p.rolledOut(now, 0.3)
	if p.wait != time.Minute {
		t.Errorf("waits %v", p.wait)
	}
}

// A first training is followed by others when there are ten times as many samples, or no more are kept, a minute later
// at the earliest.
func TestScheduleOfMoreSamples(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	p := schedule{interval: 10 * time.Minute, drift: 0.15, minSamples: 100}
	due := dueChecker(t, &p, &now)
	due(99, false, "")
	due(100, false, reasonFirst)
	p.rolledOut(now, 0.5)
	p.grows(now, 100, true)
	due(1000, false, "")
	now = now.Add(p.interval / 10)
	due(999, false, "")
	due(1000, false, reasonMore)
	due(200, true, reasonMore)
	now = now.Add(p.interval)
	due(101, false, reasonMore) // in any case, since the first was quick

	p.grows(now, 500, false) // nothing better was found, but there will be more samples
	now = now.Add(p.interval / 10)
	due(4999, false, "")
	due(5000, false, reasonMore)
	p.grows(now, 1000, false)
	now = now.Add(p.interval)
	due(thorough.training-1, false, "")
	due(thorough.training, false, reasonMore)
	p.failed(now, false) // the store does not answer
	now = now.Add(p.interval - 1)
	due(thorough.training, false, "")
	now = now.Add(1)
	due(thorough.training, false, reasonMore)
	p.kept(now, 0.4) // that was the last
	if p.promised != 0.4 || p.wait != p.interval {
		t.Errorf("promised %.2f, wait %v", p.promised, p.wait)
	}
	now = now.Add(time.Hour)
	due(100_000, true, "")
}

// A few values of another shape among many are not drift. If half of the values have another shape, that is drift.
func TestDriftForgetsSlowly(t *testing.T) {
	p := schedule{drift: 0.15}
	p.rolledOut(time.Unix(1, 0), 0.3)
	p.observe(reservoir.Snapshot{Values: 1000, RawBytes: 1_000_000, StoredBytes: 300_000})
	if p.observe(reservoir.Snapshot{Values: 20, RawBytes: 20_000, StoredBytes: 20_000}) {
		t.Error("20 of 1000 are called drift")
	}
	began := false
	for i := 0; i < 20 && !began; i++ {
		began = p.observe(reservoir.Snapshot{Values: 100, RawBytes: 100_000, StoredBytes: 65_000})
	}
	if !began {
		t.Errorf("no drift at %.3f", p.observed)
	}
}

// drifts simulates values that change their shape at the given seconds, perSecond values a second, and a manager that
// checks every 15 seconds. Each training finds a better dictionary. It returns when dictionaries for new shapes were
// rolled out, and the number of those by thorough trainings.
func drifts(perSecond, seconds int, changes ...int) (rollouts []int, thoroughly int) {
	const look = 15
	p := schedule{interval: 10 * time.Minute, drift: 0.15, minSamples: 2000}
	start := time.Unix(1_790_000_000, 0)
	samples, shape, trained := 0, 0, -1
	for at := look; at <= seconds; at += look {
		for len(changes) > 0 && changes[0] <= at {
			shape, changes = shape+1, changes[1:]
		}
		n, ratio := uint64(look*perSecond), 0.8
		if trained == shape {
			ratio = 0.3
		}
		samples += int(n)
		if p.observe(reservoir.Snapshot{Values: n, RawBytes: n * 1000, StoredBytes: uint64(float64(n*1000) * ratio)}) {
			samples, p.trained = 0, 0
		}
		now := start.Add(time.Duration(at) * time.Second)
		switch p.due(now, samples, false) {
		case "":
		case reasonMore:
			thoroughly, samples = thoroughly+1, 0
			p.rolledOut(now, 0.3)
		default:
			rollouts, trained = append(rollouts, at), shape
			p.rolledOut(now, 0.3)
			p.grows(now, samples, true)
		}
	}
	return rollouts, thoroughly
}

// Values that change their shape get a new dictionary as soon as there are enough samples of them, even soon
// after the first one. But values that keep changing do not fill the store with dictionaries.
func TestDriftIsAnsweredSoon(t *testing.T) {
	for _, c := range []struct{ perSecond, change, most int }{{100, 60, 60 + 90}, {100, 3000, 3000 + 60}, {1000, 300, 300 + 45}, {10, 3000, 3000 + 240}} {
		got, _ := drifts(c.perSecond, 6000, c.change)
		if len(got) != 2 || got[1] > c.most {
			t.Errorf("%d values a second that change after %d s: dictionaries after %v s, the second should come before %d s", c.perSecond, c.change, got, c.most)
		}
	}
	var always []int
	for at := 60; at < 12*3600; at += 60 {
		always = append(always, at)
	}
	if got, more := drifts(1000, 12*3600, always...); len(got)+more > 12*6+6 {
		t.Errorf("%d and %d dictionaries in 12 hours", len(got), more)
	}
}
