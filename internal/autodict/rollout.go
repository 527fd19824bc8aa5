package autodict

import (
	"context"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// renew trains a dictionary for the rule and rolls it out, unless what another gateway
// has announced meanwhile will do.
func (m *Manager) renew(ctx context.Context, r *managed, reason string) {
	if r.record.leasedByAnother(m.o.By, m.o.now(), m.o.Lease) {
		return
	}
	if r.rejected = 0; m.adopt(ctx, r) {
		return
	}
	if !m.replace(ctx, r, r.record.leasedTo(m.o.By, m.o.now().Add(m.o.Lease))) {
		m.finish(ctx, r, result{refused: refusedRace})
		return
	}
	m.update(r, func(t *tally) { t.Trainings[reason]++ })
	k := m.task(r)
	k.going = func() { m.keepLease(ctx, r) }
	result := m.o.train(ctx, k)
	if result.refused == "" {
		result.refused = m.rollOut(ctx, r, result)
	}
	m.finish(ctx, r, result)
}

// keepLease makes others wait while a training goes on, however slow the machine is. Should
// another gateway have taken over, the rollout will find out.
func (m *Manager) keepLease(ctx context.Context, r *managed) {
	if now := m.o.now(); r.record.Lease != nil && r.record.Lease.Until.Sub(now) < m.o.Lease/2 {
		m.replace(ctx, r, r.record.leasedTo(m.o.By, now.Add(m.o.Lease)))
	}
}

// rollOut makes the dictionary the rule's, step by step, and returns why it could not.
func (m *Manager) rollOut(ctx context.Context, r *managed, got result) (refused string) {
	number, rule := Number(got.dict.Number()), m.ruleOf(r)
	if !m.replace(ctx, r, r.record.naming(number, m.o.now().Add(m.o.Lease))) {
		return refusedRace
	}
	if err := m.publish(ctx, got.dict); err != nil {
		m.trouble(r, "a new dictionary can't be stored", err)
		return refusedStore
	}
	if !m.o.Store.Ready(uint32(number)) {
		return refusedUnready
	}
	setting := rule.Setting
	setting.Level = got.levelOf(rule)
	v := Version{
		Dict: number, At: m.o.now().UTC(), By: m.o.By, Bytes: len(got.dict.Content()), Algorithm: got.algorithm,
		Setting: setting.String(), Level: got.level, Before: got.before, Promised: got.promised, Values: got.values,
	}
	next := r.record.announcing(v)
	next.Rule, next.Login = rule.Name, r.login
	if !m.replace(ctx, r, next) {
		return refusedRace
	}
	m.use(r, choice{got.dict, got.level})
	m.update(r, func(t *tally) { t.Rollouts++; t.Version = v; t.Promised, t.Observed = v.Promised, 0 })
	return ""
}

func (m *Manager) publish(ctx context.Context, d *codec.Dict) error {
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	return m.o.Store.Publish(ctx, d)
}

// replace puts a record in place of the one that was read last. It reports false when
// another gateway was faster, or the store does not answer: then nobody knows, and the
// next reading will tell.
func (m *Manager) replace(ctx context.Context, r *managed, next Record) bool {
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	next.Seen = m.o.now().UTC().Truncate(time.Second)
	version, err := m.o.Store.ReplaceRecord(ctx, r.fingerprint, r.version, next.text())
	if err != nil {
		m.trouble(r, "the record of a rule's dictionaries can't be written", err)
	}
	if err != nil || version == 0 {
		return false
	}
	r.record, r.version = next, version
	return true
}

// finish sets the schedule for the next training, and gives back the lease.
func (m *Manager) finish(ctx context.Context, r *managed, got result) {
	now := m.o.now()
	log := m.log(r).With("before", got.before, "promised", got.promised, "values", got.values)
	switch got.refused {
	case "":
		log.Info("dictionary rolled out", "dictionary", name(got.dict), "bytes", len(got.dict.Content()), "algorithm", got.algorithm, "level", got.levelOf(m.ruleOf(r)))
		r.schedule.rolledOut(now, got.promised)
	case refusedSaving, refusedSamples:
		log.Info("no dictionary that is worth it", "reason", got.refused)
		r.schedule.refused(now)
	default:
		log.Info("training came to nothing", "reason", got.refused)
		r.schedule.failed(now)
	}
	if got.refused != "" {
		m.update(r, func(t *tally) { t.Refused[got.refused]++ })
	}
	if got.refused == "" || got.refused == refusedSaving || got.refused == refusedSamples {
		r.sampler.reset()
		m.beginVolume(r)
	}
	if l := r.record.Lease; l != nil && l.By == m.o.By && ctx.Err() == nil && l.Dict == 0 {
		m.replace(ctx, r, r.record.released())
	}
}

func name(d *codec.Dict) string { return fmt.Sprintf("%08x", d.Number()) }
