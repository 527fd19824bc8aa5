package dictionary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// announcerOf returns a gateway's announcer over a store, and its log.
func announcerOf(s *shared, by string, now *time.Time) (*announcer, *bytes.Buffer) {
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	t := newRuleStats("docs", log)
	o := optionsForTest(Options{By: by, Store: s, Log: log, Lease: 5 * time.Minute, now: func() time.Time { return *now }})
	return &announcer{o: o, name: "rule", stats: func() *ruleStats { return t }}, &logged
}

// Another gateway can use what one gateway rolls out. A record older than the store's changes nothing there.
func TestAnnouncersAgree(t *testing.T) {
	s, now := newShared(), time.Unix(1e9, 0)
	a, _ := announcerOf(s, "a", &now)
	b, _ := announcerOf(s, "b", &now)
	d, err := dictForTest()
	if err != nil {
		t.Fatal(err)
	}
	if !a.read(t.Context()) || !b.read(t.Context()) || a.lease(t.Context()) != "" {
		t.Fatal("no gateway may train")
	}
	if b.lease(t.Context()) != refusedRace {
		t.Error("b has the lease that a has taken since b looked")
	}
	if !b.read(t.Context()) || !b.leasedByAnother() || a.leasedByAnother() {
		t.Error("b does not see the lease of a, or a its own as another's")
	}
	now = now.Add(3 * time.Minute)
	a.keepLease(t.Context())
	v := Version{Dict: Number(d.Number()), By: "a", Promised: 0.3}
	if why := a.rollOut(t.Context(), d, &v, "docs", "alice"); why != "" || !v.At.Equal(now) {
		t.Fatalf("refused %q, at %v", why, v.At)
	}
	if !b.read(t.Context()) || b.leasedByAnother() || b.record.Rule != "docs" || b.record.Login != "alice" {
		t.Fatalf("%+v", b.record)
	}
	if got := b.fetch(t.Context(), b.record.Current); got == nil || got.Number() != d.Number() {
		t.Errorf("b gets %v", got)
	}
	s.retired[d.Number()] = true
	if b.fetch(t.Context(), b.record.Current) != nil {
		t.Error("a retired dictionary is used")
	}
}

// A failed rollout returns and logs the step that failed. If the dictionary may have been stored, the record keeps the
// lease with its number. A dictionary that is not in the store is never announced.
func TestRolloutStopsAtEachStep(t *testing.T) {
	d, err := dictForTest()
	if err != nil {
		t.Fatal(err)
	}
	for step, c := range map[string]struct {
		cut            func(*shared)
		refused, trace string
	}{
		"name":      {func(s *shared) { s.refused["ReplaceRecord"] = true }, refusedStore, "can't be stored in the server"},
		"overtaken": {func(s *shared) { s.version++ }, refusedRace, ""},
		"publish":   {func(s *shared) { s.refused["Publish"] = true }, refusedStore, "can't be stored"},
		"ready":     {func(s *shared) { s.unready = true }, refusedUnready, ""},
	} {
		s, now := newShared(), time.Unix(1e9, 0)
		a, logged := announcerOf(s, "a", &now)
		if !a.read(t.Context()) || a.lease(t.Context()) != "" {
			t.Fatal(step)
		}
		c.cut(s)
		v := Version{Dict: Number(d.Number())}
		if why := a.rollOut(t.Context(), d, &v, "docs", ""); why != c.refused || !v.At.IsZero() {
			t.Errorf("%s: refused %q, want %q", step, why, c.refused)
		}
		if got := logged.String(); !strings.Contains(got, c.trace) || c.trace == "" && got != "" {
			t.Errorf("%s: logged %q", step, got)
		}
		named := step == "publish" || step == "ready"
		r, err := ParseRecord(s.text)
		if err != nil || r.Current != nil || r.Lease == nil || (r.Lease.Dict == v.Dict) != named {
			t.Errorf("%s: the record is %s, %v", step, s.text, err)
		}
		a.release(t.Context()) // releases only a lease under which nothing was stored
		r, err = ParseRecord(s.text)
		if err != nil || r.Lease == nil {
			t.Errorf("%s: released: %s, %v", step, s.text, err)
		}
	}
}

// A record that the store has lost is restored, without the lease. Trouble is logged once.
func TestAnnouncerPutsBackWhatWasLost(t *testing.T) {
	s, now := newShared(), time.Unix(1e9, 0)
	a, logged := announcerOf(s, "a", &now)
	a.record, a.version = Record{Current: &Version{Dict: 7}, Lease: &Lease{By: "b"}}, 3
	s.refused["Record"] = true
	for range 2 {
		if a.read(t.Context()) {
			t.Error("read what is refused")
		}
	}
	if n := strings.Count(logged.String(), "can't be read from"); n != 1 {
		t.Errorf("logged %d times: %q", n, logged)
	}
	s.refused["Record"], s.refused["ReplaceRecord"] = false, true
	if a.read(t.Context()) || a.record.Current.Dict != 7 {
		t.Error("what can't be put back is forgotten")
	}
	s.refused["ReplaceRecord"] = false
	r, err := Record{}, error(nil)
	if !a.read(t.Context()) || a.version != 1 {
		t.Errorf("version %d", a.version)
	} else if r, err = ParseRecord(s.text); err != nil || r.Current.Dict != 7 || r.Lease != nil {
		t.Errorf("put back %s, %v", s.text, err)
	}
	s.refused["Record"] = true
	if a.read(t.Context()); strings.Count(logged.String(), "can't be read from") != 2 {
		t.Errorf("new trouble is not logged: %q", logged)
	}
}

// An idle gateway confirms once a day that it has the rule.
func TestAnnouncerRefreshes(t *testing.T) {
	s, now := newShared(), time.Unix(1e9, 0)
	a, _ := announcerOf(s, "a", &now)
	if !a.read(t.Context()) || !a.refresh(t.Context()) || s.version != 0 {
		t.Fatal("a record without anything is written")
	}
	a.replace(t.Context(), Record{Current: &Version{Dict: 7}})
	for _, c := range []struct {
		after time.Duration
		want  uint64
	}{{seenMaxAge - time.Second, 1}, {time.Second, 2}, {time.Second, 2}} {
		now = now.Add(c.after)
		if !a.refresh(t.Context()) || s.version != c.want {
			t.Errorf("at %v version %d, want %d", now, s.version, c.want)
		}
	}
	s.version++
	if now = now.Add(seenMaxAge); a.refresh(t.Context()) {
		t.Error("another gateway's record is replaced")
	}
}

// The log gives the hint on rights if the store refuses, not if it can't be reached.
func TestHintIsNotGivenWhileTheStoreIsDown(t *testing.T) {
	down := errors.New("connection refused")
	o := Options{Hint: "name a user", Unavailable: func(err error) bool { return errors.Is(err, down) }}
	if got := o.hint(fmt.Errorf("reading: %w", down)); got != nil {
		t.Errorf("while the store is down: %v", got)
	}
	if got := o.hint(errors.New("NOPERM")); len(got) != 2 || got[1] != "name a user" {
		t.Errorf("where the store refuses: %v", got)
	}
}

// While a training takes long, since the machine is slow, other gateways don't start one.
func TestLeaseIsKeptWhileTraining(t *testing.T) {
	const lease = 5 * time.Minute
	now, records, steps := time.Unix(1e9, 0), newShared(), 0
	m := New(Options{By: "a", Store: records, Lease: lease, MinSamples: 100, now: func() time.Time { return now }, Apply: func(*policy.Policy) {}})
	m.o.train = func(_ context.Context, k task) result {
		for range 20 {
			now = now.Add(time.Minute)
			k.going(Step{})
			if r, err := ParseRecord(records.text); err != nil || !r.leasedByAnother("b", now.Add(time.Minute), lease) {
				t.Fatalf("after %d steps others begin: %+v, %v", steps, r.Lease, err)
			}
			steps++
		}
		return result{refused: refusedSaving}
	}
	m.SetRules(Rules{Policy: autoPolicy(t)})
	for _, v := range documents(300, 0) {
		m.Sample(autoPolicy(t).Rules()[0], "", []byte("doc:1"), v, len(v))
	}
	m.step(t.Context(), m.all()[0])
	if r, err := ParseRecord(records.text); err != nil || steps != 20 || r.Lease != nil {
		t.Errorf("%d steps, then %+v, %v", steps, r.Lease, err)
	}
}
