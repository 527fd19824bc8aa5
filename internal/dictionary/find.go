package dictionary

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Sample describes values of one kind for which a dictionary is to be found, without a rule and a store.
type Sample struct {
	Values  [][]byte      // in any order
	Bytes   float64       // uncompressed, of all values that these stand for: a dictionary's cost is weighed against them
	Setting codec.Setting // of zstd, without a dictionary
	Saving  float64       // smallest share of what is stored without a dictionary that one must save, its cost included

	Cost     func(raw, sealed int) (before, after int) // bytes that the store needs for a value
	Worth    func(raw, sealed int) bool                // whether a value is stored compressed
	DictCost func(*codec.Dict) float64                 // bytes that the store needs for a dictionary
}

// Found is a dictionary, and how it was made.
type Found struct {
	Dict *codec.Dict
	*candidate
}

// Find returns the dictionary that a gateway would train thoroughly for such values, or nil if none saves enough. The
// result depends only on the sample.
func (t *Trainer) Find(ctx context.Context, s Sample) *Found {
	r := t.train(ctx, task{
		rule: &policy.Rule{Setting: s.Setting}, samples: mixed(s.Values), volume: s.Bytes, saving: s.Saving, price: s.DictCost,
		cost: s.Cost, worth: s.Worth, keepLevel: true,
	})
	if r.refused != "" {
		return nil
	}
	return &Found{r.dict, r.best}
}

// Again makes a dictionary in the same way from other values.
func (f *Found) Again(values [][]byte) (*codec.Dict, error) {
	return f.again(reservoir.Bounded(mixed(values), thorough.training, thorough.trainingBytes))
}

// again makes a dictionary in the same way from other values, without limits.
func (c *candidate) again(values [][]byte) (*codec.Dict, error) {
	selection, err := dict.Select(values, c.from)
	if err != nil {
		return nil, err
	}
	return selection.Dict(c.size)
}

// mixed returns the values in a random order, always the same for as many values. A training uses the first of them.
func mixed(values [][]byte) [][]byte {
	values = slices.Clone(values)
	rand.New(rand.NewPCG(uint64(len(values)), 0)).Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
	return values
}
