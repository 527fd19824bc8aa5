package shadow

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A standstill needs a number of looks, not only time, since a busy machine may not have looked. Any movement
// starts the count again.
func TestStoppedTakesLooks(t *testing.T) {
	w := &wait{conn: &targetConn{t: &Target{bound: time.Nanosecond}}}
	for range 2 {
		w.stands(true, false)
		for i := range stoppedLooks {
			if w.stands(false, false) {
				t.Fatalf("stopped at look %d", i+1)
			}
		}
		time.Sleep(maxStopped * time.Nanosecond)
		if !w.stands(false, false) {
			t.Fatal("never stopped")
		}
	}
}

// seeing is a Looker that reports every operation as working, with its snapshot taken.
type seeing struct{}

func (seeing) Look(context.Context, Conn, Conn) Progress { return Seeing }

// A read that has its snapshot is not waited for, except by statements that redefine tables: it may not have
// opened them yet.
func TestSnapshotsAreNotWaitedFor(t *testing.T) {
	for name, c := range map[string]struct{ read, redefines, goes bool }{
		"an update behind a read":      {read: true, goes: true},
		"a DROP behind a read":         {read: true, redefines: true},
		"an update behind another one": {},
	} {
		t.Run(name, func(t *testing.T) {
			target := &Target{bound: time.Hour}
			other, before := &targetConn{t: target}, &Operation{Snapshot: c.read}
			other.inflight.Store(&inflight{ops: []*Operation{before}})
			before.legs[target.place].assign(other)
			w := &wait{conn: &targetConn{t: target, ctx: t.Context()}, looker: seeing{}, left: []*Operation{before}, redefines: c.redefines}
			if got := w.goesOn(); got != c.goes {
				t.Errorf("it goes on: %v", got)
			}
			if before.passed.Load() != c.goes {
				t.Errorf("the read was passed: %v", !c.goes)
			}
		})
	}
}

// A read that a write has overtaken may have taken its snapshot later at one target, so answers that differ are no
// evidence.
func TestPassedReadsDontDiffer(t *testing.T) {
	for passed, want := range map[bool]Compared{
		true:  {Equal: 1, EqualData: 1, Unordered: 1},
		false: {Equal: 1, EqualData: 1, Different: 1},
	} {
		c := newCompare(willing{})
		for digest := range uint64(2) {
			op := &Operation{Kind: Read, Snapshot: true, Production: Answer{Digest: digest}, answers: [targets]Answer{{Digest: digest}, {}}}
			op.passed.Store(passed)
			c.add(op)
		}
		got, _ := c.totals()
		if got.Diverged = 0; got != want {
			t.Errorf("passed %v: %+v", passed, got)
		}
	}
}

// Operations behind others that wait are not forced together with them.
func TestStoppedBehindOthers(t *testing.T) {
	first, second := &wait{conn: &targetConn{t: &Target{}}}, &wait{conn: &targetConn{t: &Target{}}}
	for range stoppedLooks {
		first.stands(false, false)
		second.stands(false, true)
	}
	if !first.stands(false, false) || second.stands(false, true) {
		t.Error("both go on, or none")
	}
}

// If both targets sent an operation before all earlier ones were done, only a read may have seen different
// data.
func TestInOrder(t *testing.T) {
	for _, c := range []struct {
		op          *Operation
		here, there bool
		want        bool
	}{
		{op: &Operation{Kind: Read}, want: true},
		{op: &Operation{Kind: Read}, here: true, there: true},
		{op: &Operation{Kind: Write, Locks: true}, here: true, there: true, want: true},
		{op: &Operation{Kind: Write, Locks: true}, here: true},
		{op: &Operation{Kind: State}, here: true, there: true, want: true},
		{op: &Operation{Kind: State}, there: true},
	} {
		c.op.forced[control].Store(c.here)
		c.op.forced[test].Store(c.there)
		if got := c.op.inOrder(); got != c.want {
			t.Errorf("kind %v, forced %v and %v: %v", c.op.Kind, c.here, c.there, got)
		}
	}
}

// deaf is a Protocol whose test target neither answers nor tells what it does.
type deaf struct{ hanging }

func (deaf) Look(context.Context, Conn, Conn) Progress { return Silent }

// Waiting operations give up a target that does not tell what it does, however long the first one took in production.
func TestTargetThatIsSilent(t *testing.T) {
	r := New(Config{Protocol: deaf{}, Wait: time.Millisecond, Patience: 20 * time.Millisecond})
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.mirror.do(t.Context(), func() {
		r.mirror.submit(r.ctx, 1, []*Operation{{Kind: Write, TouchesAll: true, Production: Answer{Took: 24 * time.Hour}}})
		r.mirror.submit(r.ctx, 2, []*Operation{{Kind: Write, TouchesAll: true}})
	})
	<-r.Over()
	if got := r.Report(); got.Outcome != "VOID" || !strings.Contains(strings.Join(got.Reasons, "; "), errSilent.Error()) {
		t.Errorf("%s %q: %+v", got.Outcome, got.Reasons, got.Compared)
	}
}

// Operations that took long in production may take long at a target. Those answered in one piece ran
// concurrently.
func TestPatienceHasProductionsTime(t *testing.T) {
	target := newTarget("test", test, Config{}.Test, Config{}.withDefaults(), nil)
	for _, c := range []struct{ first, second, want time.Duration }{
		{0, 0, 10 * time.Second},
		{time.Minute, 0, 10*time.Minute + 10*time.Second},
		{time.Second, time.Minute, 10*time.Minute + 10*time.Second},
	} {
		if got := target.patienceFor([]*Operation{{Production: Answer{Took: c.first}}, {Production: Answer{Took: c.second}}}); got != c.want {
			t.Errorf("%v and %v in production: %v, not %v", c.first, c.second, got, c.want)
		}
	}
}
