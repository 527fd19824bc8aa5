package server

import (
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/simulate"
	"github.com/cinch-layer/cinch/internal/store/pack"
)

func (s *shared) newEngine() *codec.Engine {
	e, err := s.options.Zstd.Engine(s.started.Zstd)
	if err != nil { // can't fail: it worked when the process started
		return s.engine
	}
	return e
}

// newTrainer makes the trainer of dictionaries for all gateways. It uses the same zstd implementation as the
// gateways.
func (s *shared) newTrainer() *dictionary.Trainer {
	var external dict.Trainer
	if usesLibzstd(s.engine) {
		external = s.options.Zstd.Train
	}
	return dictionary.NewTrainer(dictionary.TrainerOptions{
		NewEngine: s.newEngine,
		External:  external,
		Share:     float64(s.started.Training.CPU) / 100,
	})
}

// manage sets up the managers of a store gateway's rules and dictionaries. They call apply with each new policy.
func (s *shared) manage(g *config.Gateway, r *running, apply func(*policy.Policy)) {
	r.whatIf = s.newWhatIf(g, r, apply)
	r.auto = s.newAutodict(r, r.whatIf.overrides.SetBase)
}

// newWhatIf returns the whatIf of a store gateway. It calls apply with each new policy.
func (s *shared) newWhatIf(g *config.Gateway, r *running, apply func(*policy.Policy)) *whatIf {
	watch := simulate.New(simulate.Options{
		NewEngine: s.newEngine,
		Dict:      r.store.local.Get,
		MaxSeal:   int(g.MaxSeal),
		Budget:    s.whatIf,
	})
	return &whatIf{
		gateway: g.Name, protocol: g.Protocol, watch: watch, stats: r.stats, log: r.log,
		overrides: simulate.NewOverrides(watch, apply),
	}
}

// newAutodict returns the manager of the gateway's dictionaries, without rules. It calls apply with each policy
// that names new dictionaries.
func (s *shared) newAutodict(r *running, apply func(*policy.Policy)) *dictionary.Manager {
	t := &s.started.Training
	return dictionary.New(dictionary.Options{
		By:          pack.UniqueHolder(r.name),
		Store:       r.store.dicts,
		Trainer:     s.trainer,
		Apply:       apply,
		Log:         r.log,
		Hint:        r.store.backend.publishHint(),
		Unavailable: r.store.backend.isUnavailable,
		MaxSample:   int(t.MaxSample),
		MinSamples:  t.MinSamples,
		MinSaving:   t.MinSaving.Share(),
		Drift:       t.Drift.Share(),
		Interval:    time.Duration(t.Interval),
		Poll:        time.Duration(t.Poll),
	})
}
