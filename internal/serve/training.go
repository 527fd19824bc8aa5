package serve

import (
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/mongo"
	"github.com/cinch-layer/cinch/internal/pack"
	"github.com/cinch-layer/cinch/internal/policy"
)

// newTrainer makes what trains dictionaries for all gateways, with the same
// implementation of zstd that the gateways use.
func (s *shared) newTrainer() *autodict.Trainer {
	var external dict.Trainer
	if native(s.engine) {
		external = s.options.Zstd.Train
	}
	return autodict.NewTrainer(autodict.TrainerOptions{
		NewEngine: func() *codec.Engine {
			e, err := s.options.Zstd.Engine(s.started.Zstd)
			if err != nil { // it was there when the process started
				return s.engine
			}
			return e
		},
		External: external,
		Share:    float64(s.started.Training.CPU) / 100,
	})
}

// newAutodict makes what looks after the gateway's dictionaries, and hands the policies that
// name them to apply. It has no rules yet.
func (s *shared) newAutodict(r *running, apply func(*policy.Policy)) *autodict.Manager {
	t := &s.started.Training
	return autodict.New(autodict.Options{
		By:         pack.Holder(r.name),
		Store:      r.keeper.dicts,
		Trainer:    s.trainer,
		Apply:      apply,
		Log:        r.log,
		Hint:       r.keeper.store.toKeep(),
		MaxSample:  int(t.MaxSample),
		MinSamples: t.MinSamples,
		MinSaving:  t.MinSaving.Share(),
		Drift:      t.Drift.Share(),
		Interval:   time.Duration(t.Interval),
		Poll:       time.Duration(t.Poll),
	})
}

// newKinds makes what measures the messages of a gateway, and trains dictionaries for
// its rules.
func (s *shared) newKinds(l *loaded, g *config.Gateway, r *running) *autodict.Messages {
	t := &s.started.Training
	maxDict := 0
	if g.Protocol == config.Mongo {
		maxDict = mongo.MaxTrained
	}
	return autodict.NewMessages(autodict.MessagesOptions{
		Trainer:    s.trainer,
		Log:        r.log,
		Memory:     l.kindMemory(g.Name),
		MaxDict:    maxDict,
		MinSamples: t.MinSamples,
		MinSaving:  t.MinSaving.Share(),
		Drift:      t.Drift.Share(),
		Interval:   time.Duration(t.Interval),
		Poll:       time.Duration(t.Poll),
	})
}
