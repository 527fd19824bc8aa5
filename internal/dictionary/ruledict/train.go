package ruledict

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/pack"
)

// trainKeys is the approximate number of keys sampled for training.
const trainKeys = 20000

// train trains dictionaries for rules for which no gateway has made one. It records them, so that gateways use them
// as if they had trained them; a dry run records none.
func (c *chooser) train(ctx context.Context, rules []*policy.Rule) error {
	m := c.newManager()
	whole, mixed, err := c.collectSamples(ctx, rules, m)
	if err != nil {
		return err
	}
	stoppable, cancel := context.WithCancel(ctx)
	defer cancel()
	go c.cancelOnStop(stoppable, cancel)
	trained, troubles := m.TrainOnce(stoppable, whole, func(rule string) { c.tell(Outcome{Rule: rule, Waits: true}) })
	if stoppable.Err() != nil && ctx.Err() == nil {
		return pack.ErrInterrupted
	}
	cpu := map[string]time.Duration{} // by rule and login
	for _, s := range m.Status() {
		cpu[s.Rule] = s.CPU
	}
	made := map[string]*policy.Rule{}
	for _, r := range trained.Rules() {
		made[r.Name] = r
	}
	for _, r := range rules {
		o := Outcome{Rule: r.Name, Trouble: troubles[r.Name], CPU: cpu[r.Name]}
		found := false
		for _, login := range c.logins(r) {
			st := made[r.Name].SettingFor(login)
			if st.Dict == 0 || c.has(r, login) {
				continue
			}
			found = true
			c.choose(r, login, policy.Choice{Dict: st.Dict, Level: st.Level})
			o.Login, o.CPU = login, cpu[dictionary.Label(r.Name, login)]
			o.Dict, _ = c.Store.Dicts().Dictionary(st.Dict)
			c.tell(o)
		}
		if !found && !mixed[r.Name] {
			c.tell(o)
		}
		if mixed[r.Name] {
			c.tell(Outcome{Rule: r.Name, Several: true})
		}
	}
	return nil
}

// cancelOnStop cancels when the walk is to stop, since another packer's training may take long.
func (c *chooser) cancelOnStop(ctx context.Context, cancel func()) {
	select {
	case <-c.Walk.Stop:
		cancel()
	case <-ctx.Done():
	}
}

// newManager returns a Manager that trains, for this run only.
func (c *chooser) newManager() *dictionary.Manager {
	dicts := c.Store.Dicts()
	if c.DryRun {
		dicts = store.DryRun(dicts, c.Local)
	}
	m := dictionary.New(dictionary.Options{
		By: pack.UniqueHolder("pack"), Store: dicts, Log: slog.New(slog.DiscardHandler), Apply: func(*policy.Policy) {},
		MaxSample: c.MaxSample, MinSaving: c.MinSaving, Trainer: c.Trainer,
	})
	m.SetRules(dictionary.Rules{Policy: c.Policy, NoSample: c.NoSample})
	return m
}

// collectSamples passes sampled values of the rules to m. whole is the ratio of all keys to those sampled; mixed has
// the rules with values that several users may have written.
func (c *chooser) collectSamples(ctx context.Context, rules []*policy.Rule, m *dictionary.Manager) (whole float64, mixed map[string]bool, err error) {
	wanted := map[string]bool{}
	for _, r := range rules {
		wanted[r.Name] = true
	}
	if c.OnSampling != nil {
		c.OnSampling(true)
		defer c.OnSampling(false)
	}
	mixed = map[string]bool{}
	var mu sync.Mutex // of mixed: pages are read side by side
	walk := c.Walk
	walk.DryRun, walk.Sample, walk.State, walk.Tell = true, trainKeys, nil, nil
	walk.Own = nil // the dictionary is for the keys of all workers
	walk.Task = &pack.Sampler{
		Seal: &pack.Seal{Policy: c.Policy, Sealer: c.Sealer, Ready: func(uint32) bool { return false }, Rule: c.Store.CompressionRules(c.Policy).Rule},
		OnSample: func(r *policy.Rule, db string, v *store.Value) {
			if !wanted[r.Name] {
				return
			}
			login, known := "", true
			if !r.Shared {
				login, known = c.writers.Of(db, v.Key)
			}
			switch {
			case !known:
				mu.Lock()
				mixed[r.Name] = true
				mu.Unlock()
			case !c.has(r, login):
				m.Sample(r, login, v.Key, v.Stored, len(v.Stored))
			}
		},
	}
	report, err := pack.Run(ctx, walk)
	return float64(max(report.Total, report.Keys)) / float64(max(report.Keys, 1)), mixed, err
}
