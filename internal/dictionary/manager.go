package dictionary

import (
	"context"
	"math/rand/v2"
	"time"
)

// Manager manages the dictionaries of one gateway. It determines the policy in force: the last rules, with
// the dictionaries chosen since.
type Manager struct {
	o *Options
	*activePolicy
	publisher publisher
	nextLook  time.Time // see due
}

// New returns a Manager without rules.
func New(o Options) *Manager {
	o.setDefaults()
	return &Manager{o: &o, activePolicy: newActivePolicy(&o), publisher: publisher{o: &o}}
}

// Run trains, rolls out and adopts dictionaries until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	for {
		m.publisher.step(ctx, m.rulesPolicy())
		for _, r := range m.all() {
			m.step(ctx, r)
		}
		if !m.await(ctx) {
			return
		}
	}
}

// await waits until the records should be read again, or until something is due. It reports false if ctx has
// ended.
func (m *Manager) await(ctx context.Context) bool {
	jitter := 0.8 + 0.4*rand.Float64() // gateways that start together must not poll together
	poll := time.After(time.Duration(float64(m.o.Poll) * jitter))
	look := time.NewTicker(min(checkInterval, m.o.Poll))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-poll:
			return true
		case <-m.joined:
			m.reapply()
			return true
		case <-look.C:
			if m.becameDue() {
				return true
			}
		}
	}
}

// checkInterval is the interval between checks of local counts, which cost nothing.
const checkInterval = time.Second

// becameDue reports whether some training has become due since the last check. One that can't start, since
// another gateway trains or the store does not answer, is retried at the next poll.
func (m *Manager) becameDue() (turns bool) {
	now := m.o.now()
	for _, r := range m.all() {
		m.observe(r)
		due := m.due(r, now) != ""
		turns = turns || due && !r.wasDue
		r.wasDue = due
	}
	return turns
}

// lookShare limits trainings that only look for other shapes to this share of the time, all rules together. A training
// uses at most half of a core, so they use at most 1 % of one.
const lookShare = 0.02

// due returns why training is due for a rule, "" if it is not, or if it would only look and others have just looked.
func (m *Manager) due(r *managedRule, now time.Time) string {
	reason := r.monitor.due(now)
	if (reason == reasonFirst || reason == reasonDrift) && r.monitor.schedule.looks(now) && now.Before(m.nextLook) {
		return ""
	}
	return reason
}

// step does what is due for one rule.
func (m *Manager) step(ctx context.Context, r *managedRule) {
	m.observe(r)
	if ctx.Err() != nil || !r.announcer.read(ctx) || !r.announcer.refresh(ctx) {
		m.countRead(r, 1)
		return // without the store nothing can be shared with other gateways
	}
	m.dropRetired(r)
	r.resume()
	m.adopt(ctx, r)
	m.countRead(r, enoughReads)
	reason := m.due(r, m.o.now())
	if r.wasDue = reason != ""; r.wasDue {
		m.retrain(ctx, r, reason)
	}
}

// observe evaluates what was stored since the last call with the dictionary in force.
func (m *Manager) observe(r *managedRule) {
	if r.current.dict != nil && !m.o.Store.Ready(r.current.dict.Number()) {
		r.monitor.skip() // values have no dictionary until the store has it
		return
	}
	began, schedule := r.monitor.observe(), &r.monitor.schedule
	r.stats().update(func(s *Status) { s.Observed, s.Promised = schedule.observed, schedule.promised })
	if began {
		r.stats().log.Info("values no longer fit the dictionary; collecting new samples",
			"promised", forLog(schedule.promised), "observed", forLog(schedule.observed))
		r.rejected = 0
		r.monitor.restart(m.o.now())
	}
}

// dropRetired stops using a dictionary that was retired.
func (m *Manager) dropRetired(r *managedRule) {
	if r.current.dict == nil || !m.o.Store.Retired(r.current.dict.Number()) {
		return
	}
	r.stats().log.Info("dictionary was retired; values are compressed without one until the next training", "dictionary", name(r.current.dict))
	r.monitor.schedule.lost()
	m.use(r, choice{})
}
