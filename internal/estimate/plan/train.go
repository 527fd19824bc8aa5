package plan

import (
	"cmp"
	"context"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/dictionary"
)

const (
	trainAtLeast = 8         // minimum number of training values
	fewValues    = 1000      // with fewer, the dictionary to write is trained on all: half says too little
	trainMean    = 128 << 10 // bytes of a value; gateways sample no longer ones
	leastSaving  = 0.005     // share that a dictionary must save; candidates with one are chosen, or not, as others are
)

// train returns the dictionary that gateways and cinch pack would train for values, or nil if they have too little in
// common. It is chosen by values that it was not trained on, all from the given ones; so the caller's own test values
// stay unseen. total is the number of bytes of the group, which the dictionary's own cost is compared with.
func (p *planner) train(ctx context.Context, values []subject, rules *rules, total float64) *dictionary.Found {
	var some [][]byte
	bytes := 0
	for _, v := range values {
		if !rules.leaves(v.held) {
			some, bytes = append(some, v.content), bytes+len(v.content)
		}
	}
	if len(some) < trainAtLeast || bytes/len(some) > trainMean {
		return nil
	}
	return p.trainer().Find(ctx, dictionary.Sample{
		Values: some, Bytes: total, Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Saving: cmp.Or(p.DictSaving, leastSaving),
		Cost:  func(raw, sealed int) (before, after int) { return rules.cost(rules.kind, raw, sealed) },
		Worth: rules.worth, DictCost: p.Source.dictCost,
	})
}

func (p *planner) trainer() *dictionary.Trainer {
	return dictionary.NewTrainer(dictionary.TrainerOptions{NewEngine: func() *codec.Engine { return p.Engine }, External: p.Train, Share: 1})
}

// trainOnAll trains on the test values too. The result must not be worse on these than the dictionary found, although
// it has seen them: training has some randomness.
func (p *planner) trainOnAll(values, test [][]byte, found *dictionary.Found, st codec.Setting) *codec.Dict {
	judged, err := dict.Evaluate(p.Engine, found.Dict, st, test)
	if err != nil {
		return found.Dict
	}
	more, err := found.Again(values)
	if err != nil {
		return found.Dict
	}
	if now, err := dict.Evaluate(p.Engine, more, st, test); err != nil || now.DictBytes > judged.DictBytes {
		return found.Dict
	}
	return more
}
