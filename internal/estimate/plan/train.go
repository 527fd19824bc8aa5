package plan

import (
	"context"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
)

const (
	trainAtLeast = 8         // minimum number of training values
	fewValues    = 1000      // with fewer, the dictionary to write is trained on all: half says too little
	trainMean    = 128 << 10 // bytes of a value; gateways sample no longer ones
	trainBytes   = 4 << 20   // bytes of training values
)

// train returns a dictionary for values, or nil if they have too little in common. It tries larger and larger
// sizes until they stop helping, as measured on a quarter of the values that it does not train on; so the
// caller's own test values stay unseen. The returned dictionary is trained on all values, in the best of
// these sizes. total is the number of bytes of the group, which the dictionary's own cost is compared with.
func (p *planner) train(ctx context.Context, values [][]byte, total float64) *codec.Dict {
	values = subsampleBytes(values, trainBytes)
	bytes := 0
	for _, v := range values {
		bytes += len(v)
	}
	if len(values) < trainAtLeast || bytes/len(values) > trainMean {
		return nil
	}
	learn, held := dict.Split(values, 4)
	best, bestSize := (*codec.Dict)(nil), 0
	st := codec.Setting{Codec: codec.Zstd, Level: 3}
	var least float64
	for _, size := range dict.Sizes {
		if ctx.Err() != nil || size > bytes {
			break
		}
		d, err := p.trainSize(learn, size)
		if err != nil {
			continue
		}
		r, err := dict.Evaluate(p.Engine, d, st, held)
		if err != nil {
			continue
		}
		if best == nil {
			least = float64(r.PlainBytes) / float64(r.RawBytes) * total
		}
		left := float64(r.DictBytes)/float64(r.RawBytes)*total + p.Source.dictCost(d)
		if left > 0.995*least {
			if best != nil {
				break
			}
			continue
		}
		best, bestSize, least = d, size, left
	}
	return p.retrain(values, bestSize, best)
}

// trainSize trains a dictionary of one size.
func (p *planner) trainSize(values [][]byte, size int) (*codec.Dict, error) {
	o := dict.TrainOptions{Size: size, Level: 3, Algorithm: dict.Cover, External: p.Train}
	if p.Train != nil {
		o.Algorithm = dict.External
	}
	return dict.Train(values, o)
}

// retrain trains on more values than d was, at the same size.
func (p *planner) retrain(values [][]byte, size int, d *codec.Dict) *codec.Dict {
	if d == nil {
		return nil
	}
	if more, err := p.trainSize(subsampleBytes(values, trainBytes), size); err == nil {
		return more
	}
	return d
}

// trainOnAll trains on the test values too. The result must not be worse on these than d, although it has seen
// them: training has some randomness.
func (p *planner) trainOnAll(values, test [][]byte, d *codec.Dict, st codec.Setting) *codec.Dict {
	more := p.retrain(values, len(d.Content()), d)
	judged, err := dict.Evaluate(p.Engine, d, st, test)
	if err != nil {
		return d
	}
	if now, err := dict.Evaluate(p.Engine, more, st, test); err != nil || now.DictBytes > judged.DictBytes {
		return d
	}
	return more
}

// subsampleBytes returns every nth value, with at most about limit bytes in total.
func subsampleBytes(values [][]byte, limit int) [][]byte {
	total := 0
	for _, v := range values {
		total += len(v)
	}
	if total <= limit {
		return values
	}
	step := (total + limit - 1) / limit
	var some [][]byte
	for i := 0; i < len(values); i += step {
		some = append(some, values[i])
	}
	return some
}
