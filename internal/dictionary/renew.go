package dictionary

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
)

// adopt puts the dictionary that another gateway has announced into force, if it does as well on the values here.
// It reports whether it did so.
func (m *Manager) adopt(ctx context.Context, r *managedRule) bool {
	v := r.announcer.record.Current
	if v == nil || v.Dict == r.rejected || m.o.Store.Retired(uint32(v.Dict)) || r.current.is(uint32(v.Dict)) {
		return false
	}
	d := r.announcer.fetch(ctx, v)
	if d == nil {
		return false
	}
	announced := choice{d, v.Level}
	promised, ok := m.isAsGood(ctx, r, announced, v)
	if !ok {
		return false
	}
	at := m.o.now()
	if v.At.Before(at) {
		at = v.At
	}
	r.inForce(at, promised, v.Quick)
	r.monitor.recordVolume(v.Stored)
	r.sampler.Reset()
	m.use(r, announced)
	r.stats().update(func(s *Status) { s.Adopted++; s.Version = *v; s.Promised, s.Observed = promised, 0 })
	r.stats().log.Info("dictionary adopted", "dictionary", name(d), "by", v.By, "ratio", forLog(promised))
	return true
}

// asGood is the factor by which another gateway's dictionary may be worse and still be adopted, since a common
// dictionary has advantages.
const asGood = 1.02

// isAsGood reports whether the announced dictionary does as well on the values here, and returns the ratio that
// it promises. If there are too few values to judge by, it accepts the announced ratio.
func (m *Manager) isAsGood(ctx context.Context, r *managedRule, announced choice, v *Version) (promised float64, ok bool) {
	if samples, _ := r.sampler.Size(); samples < reservoir.MinValues {
		return v.Promised, true
	}
	current, with, ok := m.o.Trainer.compare(ctx, m.task(ctx, r, ""), announced)
	if !ok {
		return 0, false
	}
	if with > current*asGood || r.current.dict == nil && with >= current {
		r.rejected = v.Dict
		r.stats().update(func(s *Status) { s.Rejected++ })
		r.stats().log.Info("another gateway's dictionary does not suit the values here", "dictionary", name(announced.dict), "by", v.By, "ratio", forLog(with), "now", forLog(current))
		return 0, false
	}
	return with, true
}

// retrain trains a dictionary for the rule and rolls it out, unless another gateway has meanwhile announced one that
// suits the values here. It returns why it rolled out none, or refusedRace if another gateway trains; otherwise "".
func (m *Manager) retrain(ctx context.Context, r *managedRule, reason string) (refused string) {
	if r.announcer.leasedByAnother() {
		return refusedRace
	}
	if r.rejected = 0; m.adopt(ctx, r) {
		return ""
	}
	k := m.task(ctx, r, reason)
	if reason == reasonGrowth && !r.monitor.hasGrown(k.volume) {
		return ""
	}
	// A job, or a training that only looks for other shapes, takes the lease later, so that no record remains, or is
	// written again and again, if no dictionary is worth it.
	leaseLater := r.monitor.scale > 0 || k.looks
	if !leaseLater {
		if refused := m.lease(ctx, r, k, result{}); refused != "" {
			return refused
		}
	}
	r.stats().update(func(s *Status) { s.Trainings[reason]++ })
	log := r.stats().log
	log.Log(ctx, k.level(), "training a dictionary", "reason", reason, "samples", len(k.samples), "raw_bytes_seen", int64(r.monitor.rawBytes()))
	k.going = m.progress(ctx, r)
	began := m.o.now()
	result := m.o.train(ctx, k)
	if now := m.o.now(); k.looks {
		m.nextLook = now.Add(time.Duration(float64(now.Sub(began)) / lookShare))
	}
	result.volume, result.quick = k.volume, k.quick
	r.stats().update(func(s *Status) { s.Step = Step{}; s.CPU += result.cpu })
	if leaseLater && result.refused == "" {
		if refused := m.lease(ctx, r, k, result); refused != "" {
			return refused
		}
	}
	if result.refused == "" {
		result.refused = m.rollOut(ctx, r, result)
	}
	m.finish(ctx, r, k, result)
	return result.refused
}

// moreSaving is the share of what is stored now that a dictionary from more samples must save, its own cost included.
const moreSaving = 0.02

// progress returns a callback that records and logs a training's progress, and renews its lease.
func (m *Manager) progress(ctx context.Context, r *managedRule) func(Step) {
	tell := logProgress(r.stats().log, m.o.now)
	return func(at Step) {
		r.announcer.keepLease(ctx)
		r.stats().update(func(s *Status) { s.Step = at })
		tell(at)
	}
}

// progressEvery is the interval between log lines about a running training.
const progressEvery = 5 * time.Second

// logProgress returns a callback that logs a training's progress every progressEvery.
func logProgress(log *slog.Logger, now func() time.Time) func(Step) {
	told := now()
	return func(at Step) {
		if now := now(); now.Sub(told) >= progressEvery {
			told = now
			log.Info("training in progress", "step", at.Number, "of", at.Of, "trying", at.Trying)
		}
	}
}

// lease takes the lease for a training that begins, or that has ended with got. If it can't, it ends the training and
// returns why.
func (m *Manager) lease(ctx context.Context, r *managedRule, k task, got result) (refused string) {
	if got.refused = r.announcer.lease(ctx); got.refused != "" {
		m.finish(ctx, r, k, got)
	}
	return got.refused
}

// task returns the inputs of a training for the rule.
func (m *Manager) task(ctx context.Context, r *managedRule, reason string) task {
	once := r.monitor.scale > 0
	k := task{
		rule: r.rule(), current: r.current, samples: r.sampler.Values(),
		volume: m.expectedVolume(ctx, r, reason == reasonFirst), saving: m.o.MinSaving, price: m.o.Store.DictCost,
	}
	k.last = once || r.sampler.IsFull() || len(k.samples) >= thorough.training
	if reason == reasonFirst || reason == reasonDrift {
		k.looks = r.monitor.schedule.looks(m.o.now())
		k.quick = !once && (k.looks || !k.areLong())
	}
	if reason == reasonMore && k.current.dict != nil && !r.monitor.schedule.drifted {
		k.saving = min(k.saving, moreSaving)
	}
	return k
}

// rollOut announces a trained dictionary and puts it into force, or returns why it could not.
func (m *Manager) rollOut(ctx context.Context, r *managedRule, got result) (refused string) {
	rule := r.rule()
	setting := rule.Setting
	setting.Level = got.levelOf(rule)
	v := Version{
		Dict: Number(got.dict.Number()), By: m.o.By, Bytes: len(got.dict.Content()), Algorithm: got.algorithm,
		Setting: setting.String(), Level: got.level, Before: got.before, Promised: got.promised, Values: got.values, Stored: got.volume, Quick: got.quick,
	}
	if refused := r.announcer.rollOut(ctx, got.dict, &v, rule.Name, r.login); refused != "" {
		return refused
	}
	m.use(r, choice{got.dict, got.level})
	r.stats().update(func(s *Status) { s.Rollouts++; s.Version = v; s.Promised, s.Observed = v.Promised, 0 })
	return ""
}

// finish sets the schedule for the next training, and releases the lease. The sample of a training that was not
// thorough stays, for one that is.
func (m *Manager) finish(ctx context.Context, r *managedRule, k task, got result) {
	now, schedule := m.o.now(), &r.monitor.schedule
	ends := got.refused != "" && (k.looks || schedule.looking && !k.quick) // quick ones look for another shape then
	grows := (k.quick || !k.last) && !ends
	log := r.stats().log.With("before", forLog(got.before), "promised", forLog(got.promised), "values", got.values, "cpu", cpuForLog(got.cpu))
	switch got.refused {
	case "":
		log.Info("dictionary rolled out", "dictionary", name(got.dict), "bytes", len(got.dict.Content()), "algorithm", got.algorithm, "level", got.levelOf(r.rule()))
		schedule.rolledOut(now, got.promised)
	case refusedSaving, refusedSamples:
		log.Log(ctx, k.level(), "no useful dictionary found", "reason", got.refused, "weighed_against_raw_bytes", int64(got.volume))
		switch {
		case grows:
		case schedule.trained > 0 && r.current.dict != nil && !schedule.drifted:
			schedule.kept(now, got.before)
		default:
			schedule.refused(now, k.looks, got.dict == nil || got.promised > (1-k.saving)*got.before)
		}
	case refusedStore: // already logged
		schedule.failed(now, k.looks)
	default:
		log.Info("training ended without a dictionary", "reason", got.refused)
		schedule.failed(now, k.looks)
	}
	if got.refused != "" {
		r.stats().update(func(s *Status) { s.Refused[got.refused]++ })
	}
	if got.refused == "" || got.refused == refusedSaving || got.refused == refusedSamples {
		if grows {
			schedule.grows(now, len(k.samples), k.quick)
		} else {
			r.monitor.restart(now)
		}
		if !k.quick {
			r.monitor.recordVolume(got.volume)
		}
	}
	r.announcer.release(ctx)
}

func name(d *codec.Dict) string { return fmt.Sprintf("%08x", d.Number()) }
