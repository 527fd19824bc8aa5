package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/pack"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/ui"
)

// trainKeys is about how many keys are looked at for the samples of dictionaries.
const trainKeys = 20000

// withTrained is the policy with dictionaries also for those rules with `dictionary: auto` for
// which no gateway has made one: the values to learn from are at hand. They are announced
// to gateways like those that these train; a dry run keeps them to itself.
func (o *packOptions) withTrained(ctx context.Context, w *where, p pack.Options, rules *policy.Policy) (*policy.Policy, error) {
	var missing []*policy.Rule
	for _, r := range rules.Rules() {
		if r.Auto && r.Setting.Dict == 0 {
			missing = append(missing, r)
		}
	}
	login, one := w.store.Writer(ctx)
	if missing = o.ofOneLogin(missing, one); len(missing) == 0 {
		return rules, nil
	}
	m := w.newManager(o.dryRun)
	whole, err := o.learn(ctx, w, p, missing, m, login)
	if err != nil {
		return nil, err
	}
	choose := map[string]policy.Choice{}
	for _, r := range m.Once(ctx, whole).Rules() {
		if st := r.SettingFor(login); st.Dict != 0 && slices.ContainsFunc(missing, func(x *policy.Rule) bool { return x.Name == r.Name }) {
			choose[r.Name] = policy.Choice{Dict: st.Dict, Level: st.Level}
		}
	}
	for _, r := range rules.Rules() { // those that had one keep it
		if r.Auto && r.Setting.Dict != 0 {
			choose[r.Name] = policy.Choice{Dict: r.Setting.Dict, Level: r.Setting.Level}
		}
	}
	o.tellTrained(w, missing, choose)
	return w.policy.With(choose), ctx.Err()
}

// ofOneLogin leaves out rules under which several users may write, unless they share their samples: a
// dictionary shows pieces of what it was made of, and nobody knows who wrote what is stored.
func (o *packOptions) ofOneLogin(rules []*policy.Rule, one bool) (some []*policy.Rule) {
	for _, r := range rules {
		if one || r.Shared {
			some = append(some, r)
		} else if !o.asJSON {
			fmt.Fprintf(o.errs, "rule %s: values are sealed without a dictionary, as the server has several users, or may have, and nobody knows whose values these are; share_samples: true allows one\n", r.Name)
		}
	}
	return some
}

// newManager makes what trains, for this one run.
func (w *where) newManager(dryRun bool) *autodict.Manager {
	var external dict.Trainer
	if w.engine.ZstdName() == "libzstd" {
		external = libzstd.Train
	}
	zstd := w.cfg.Zstd
	m := autodict.New(autodict.Options{
		By: pack.Holder("pack"), Store: w.trainingStore(dryRun), Log: slog.New(slog.DiscardHandler), Apply: func(*policy.Policy) {},
		MaxSample: int(w.cfg.Training.MaxSample), MinSaving: w.cfg.Training.MinSaving.Share(),
		Trainer: autodict.NewTrainer(autodict.TrainerOptions{
			NewEngine: func() *codec.Engine {
				e, err := engineWith(zstd)
				if err != nil { // it was there when the store was opened
					return w.engine
				}
				return e
			},
			External: external, Share: 1,
		}),
	})
	m.SetRules(autodict.Rules{Policy: w.policy, NoSample: w.gateway.NoSample()})
	return m
}

// learn shows values of the rules to what trains, and says how many times as many keys there are.
func (o *packOptions) learn(ctx context.Context, w *where, p pack.Options, rules []*policy.Rule, m *autodict.Manager, login string) (whole float64, err error) {
	wanted := map[string]bool{}
	for _, r := range rules {
		wanted[r.Name] = true
	}
	seal := &pack.Seal{Policy: w.policy, Sealer: w.sealer(), Ready: func(uint32) bool { return false }, Rule: w.store.Sealing(w.policy).Rule}
	p.Task = &pack.Sampling{Seal: seal, See: func(r *policy.Rule, v *store.Value) {
		if wanted[r.Name] {
			m.Sample(r, login, v.Key, v.Stored, len(v.Stored))
		}
	}}
	progress := ui.NewProgress(o.errs)
	defer progress.Clear()
	if !o.asJSON {
		progress.Show(0, "learning dictionaries")
	}
	p.DryRun, p.Sample, p.State, p.Tell = true, trainKeys, nil, func(pack.Event) {}
	report, err := pack.Run(ctx, p)
	return float64(max(report.Total, report.Keys)) / float64(max(report.Keys, 1)), err
}

func (o *packOptions) tellTrained(w *where, rules []*policy.Rule, choose map[string]policy.Choice) {
	if o.asJSON {
		return
	}
	for _, r := range rules {
		c := choose[r.Name]
		d, err := w.store.Dicts().Dictionary(c.Dict)
		if c.Dict == 0 || err != nil {
			fmt.Fprintf(o.errs, "rule %s: no dictionary that is worth it could be trained; values are sealed without\n", r.Name)
			continue
		}
		fmt.Fprintf(o.errs, "rule %s: dictionary %08x of %s was trained of what is stored\n", r.Name, c.Dict, ui.Size(int64(len(d.Content()))))
	}
}

// trainingStore is where dictionaries go.
func (w *where) trainingStore(dryRun bool) store.Dicts {
	if dryRun {
		return store.DryRun(w.store.Dicts(), &w.local)
	}
	return w.store.Dicts()
}
