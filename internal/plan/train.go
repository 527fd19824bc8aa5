package plan

import (
	"context"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
)

const (
	trainAtLeast = 64        // values to learn from
	trainMean    = 128 << 10 // bytes of a value; gateways sample no longer ones
	trainBytes   = 4 << 20   // of values to learn from
)

// train makes a dictionary of values, or none where they have too little in common. It
// tries larger and larger ones until they stop helping, which is decided on a quarter of
// the values that it does not learn from; so the caller's own test values stay unseen.
// total is the bytes that the group has, against which the dictionary's own cost counts.
func (p *planner) train(ctx context.Context, values [][]byte, total float64) *codec.Dict {
	values = upTo(values, trainBytes)
	bytes := 0
	for _, v := range values {
		bytes += len(v)
	}
	if len(values) < trainAtLeast || bytes/len(values) > trainMean {
		return nil
	}
	learn, held := dict.Split(values, 4)
	st := codec.Setting{Codec: codec.Zstd, Level: 3}
	algorithm := dict.Cover
	if p.Train != nil {
		algorithm = dict.External
	}
	var best *codec.Dict
	var least float64
	for _, size := range dict.Sizes {
		if ctx.Err() != nil || size*4 > bytes && best != nil {
			break
		}
		d, err := dict.Train(learn, dict.TrainOptions{Size: size, Level: 3, Algorithm: algorithm, External: p.Train})
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
		left := float64(r.DictBytes)/float64(r.RawBytes)*total + p.Source.DictCost*float64(len(d.Content()))
		if left > 0.995*least {
			if best != nil {
				break
			}
			continue
		}
		best, least = d, left
	}
	return best
}

// upTo takes every nth value, so that they have no more than about limit bytes.
func upTo(values [][]byte, limit int) [][]byte {
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
