package dictionary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/system/cputime"
)

// search is the state of one training.
type search struct {
	trainer              *Trainer
	task                 task
	ctx                  context.Context
	engine               *codec.Engine
	training, validation [][]byte
	step                 Step
	made                 dict.TrainOptions // options that made the best dictionary
}

// work runs f as the next step, and then rests, so that both together use the trainer's share of a core.
func (s *search) work(trying string, f func()) {
	s.step.Number, s.step.Trying = s.step.Number+1, trying
	if s.task.going != nil {
		s.task.going(s.step)
	}
	d := cputime.Of(f)
	s.trainer.worked.Add(int64(d))
	select {
	case <-s.ctx.Done():
	case <-time.After(time.Duration(float64(d) * (1/s.trainer.o.Share - 1))):
	}
}

func (s *search) run() result {
	if len(s.validation) == 0 || len(s.training) == 0 {
		return result{refused: refusedSamples}
	}
	sizes, lower := s.sizes(), s.lowerLevels()
	s.step.Of = 1 + len(sizes)*len(s.candidates(0)) + len(lower) + 1
	best := result{values: len(s.validation), refused: refusedSamples}
	s.work("the current dictionary", func() { best.before = s.ratio(s.task.current) })
	worse := 0                          // consecutive sizes without improvement; two end the search
	behind := map[dict.Algorithm]bool{} // algorithms too far behind for larger sizes
	for _, size := range sizes {
		before, costs := s.cost(best), map[dict.Algorithm]float64{}
		for _, o := range s.candidates(size) {
			if s.ctx.Err() != nil {
				break
			}
			if behind[o.Algorithm] {
				s.step.Number++
				continue
			}
			s.work(fmt.Sprintf("%s of %d KiB", algorithmName(o.Algorithm), size>>10), func() { costs[o.Algorithm] = s.try(o, &best) })
		}
		for a, cost := range costs {
			behind[a] = cost > farBehind*s.cost(best)
		}
		if worse++; s.cost(best) < before {
			worse = 0
		}
		if worse == 2 || s.ctx.Err() != nil {
			break
		}
	}
	s.step.Number = s.step.Of - len(lower) - 1
	s.tryLevels(&best, lower)
	s.useAll(&best)
	return s.decide(best)
}

// farBehind is the factor by which an algorithm's cost may exceed the best at one size and still be tried at
// the next.
const farBehind = 1.05

// levels are tried if below the rule's own. With a dictionary a higher level is often no better: what the
// dictionary leaves of a value are short matches, which the strategies of some levels don't look for.
var levels = []int{15, 12, 9, 6, 3, 1}

// asGoodLevel is the factor by which a lower level may store more, since it needs less CPU.
const asGoodLevel = 1.002

// tryLevels looks for a level below the rule's that does as well with the best dictionary. It never tries a
// higher one: the user decides how much CPU compression may cost.
func (s *search) tryLevels(best *result, lower []int) {
	if best.dict == nil {
		return
	}
	least := best.promised
	for _, level := range lower {
		if s.ctx.Err() != nil {
			return
		}
		s.work(fmt.Sprintf("level %d", level), func() {
			if got := s.ratio(choice{best.dict, level}); got <= least*asGoodLevel {
				best.level, best.promised, least = level, got, min(least, got)
			}
		})
	}
}

// useAll trains the best dictionary again, including the values for judging, if that stays within a
// training's limits: with few documents another quarter helps. The promised ratio stays the one measured on
// values not used for training.
func (s *search) useAll(best *result) {
	all := append(slices.Clip(s.training), unique(s.validation)...)
	if best.dict == nil || s.ctx.Err() != nil || len(reservoir.Bounded(all, maxTraining, maxTrainingBytes)) < len(all) {
		return
	}
	s.work("all values", func() {
		d, err := dict.Train(all, s.made)
		if err == nil && s.ratio(choice{d, best.level}) <= best.promised {
			best.dict = d
		}
	})
}

// unique removes duplicates.
func unique(values [][]byte) (some [][]byte) {
	seen := map[uint64]struct{}{}
	for _, v := range values {
		sum := xxh3.Hash(v)
		if _, again := seen[sum]; !again {
			seen[sum] = struct{}{}
			some = append(some, v)
		}
	}
	return some
}

func (s *search) lowerLevels() (lower []int) {
	for _, level := range levels {
		if level < s.task.rule.Setting.Level {
			lower = append(lower, level)
		}
	}
	return lower
}

// candidates returns the training options for one size.
func (s *search) candidates(size int) []dict.TrainOptions {
	all := dict.Candidates(s.task.rule.Setting.Level, s.trainer.o.External)
	all = slices.DeleteFunc(all, func(o dict.TrainOptions) bool { return o.Size != dict.Sizes[0] })
	for i := range all {
		all[i].Size = size
	}
	return all
}

// smallVolume is the volume, in bytes, up to which dictionaries of 1 and 2 KiB are tried too, since the cost
// of larger ones matters there.
const smallVolume = 2 << 20

func (s *search) sizes() []int {
	if s.task.volume > smallVolume {
		return dict.Sizes
	}
	return append([]int{1 << 10, 2 << 10}, dict.Sizes...)
}

// try trains a dictionary, makes it the best if it costs least, and returns its cost.
func (s *search) try(o dict.TrainOptions, best *result) (cost float64) {
	d, err := dict.Train(s.training, o)
	if err != nil {
		return 0 // larger sizes may succeed
	}
	r := *best
	r.dict, r.algorithm, r.promised = d, algorithmName(o.Algorithm), s.ratio(choice{dict: d})
	if best.dict == nil || s.cost(r) < s.cost(*best) {
		*best, s.made = r, o
	}
	return s.cost(r)
}

func algorithmName(a dict.Algorithm) string {
	if a == dict.External {
		return "libzstd"
	}
	return a.String()
}

// cost returns what the store will hold with r's dictionary, in bytes: values and dictionary.
func (s *search) cost(r result) float64 {
	if r.dict == nil {
		return r.before * s.task.volume
	}
	return r.promised*s.task.volume + s.task.dictCost(len(r.dict.Content()))
}

// dictCost returns the cost of a dictionary of the given bytes.
func (k *task) dictCost(bytes int) float64 {
	if k.price != nil {
		return k.price(bytes)
	}
	return dictCost*float64(bytes) + dictFixed
}

func (s *search) decide(r result) result {
	switch {
	case s.ctx.Err() != nil:
		r.refused = refusedStopped
	case r.dict == nil:
	case s.cost(r) > (1-s.task.saving)*r.before*s.task.volume:
		r.refused = refusedSaving
	default:
		r.refused = ""
	}
	return r
}

// ratio compresses the values for judging as the gateway would, and decompresses them again. A dictionary
// that fails to restore a value gets the ratio hopeless.
func (s *search) ratio(c choice) float64 {
	st, o := s.task.rule.Setting, envelope.SealerOptions{Engine: s.engine}
	st.Dict = 0
	if c.dict != nil {
		st.Dict, o.Dicts = c.dict.Number(), onlyDict{c.dict}
	}
	if c.level > 0 && c.level < st.Level {
		st.Level = c.level
	}
	t := valueType(s.task.rule)
	sealer, worth := envelope.NewSealer(o), s.task.rule.SavesEnoughFunc(t)
	raw, stored := 0, 0
	var sealed, opened []byte
	var err error
	for _, v := range s.validation {
		sealed = sealer.Seal(sealed[:0], v, st, worth)
		if opened, err = sealer.Open(opened[:0], sealed); err != nil || !slices.Equal(opened, v) {
			return hopeless
		}
		before, after := policy.Cost(t, len(v), len(sealed))
		raw, stored = raw+before, stored+after
	}
	return float64(stored) / float64(max(raw, 1))
}

// hopeless is worse than the ratio of any setting.
const hopeless = 1e6

// valueType returns the type by which to calculate the cost of a rule's values. It is a guess, since a
// sample's actual type is not recorded.
func valueType(r *policy.Rule) policy.Type {
	for _, t := range []policy.Type{policy.String, policy.Hash, policy.Tuple, policy.Argument} {
		if r.Types&t != 0 {
			return t
		}
	}
	return policy.Stream
}

// onlyDict provides a single dictionary.
type onlyDict struct{ d *codec.Dict }

var errOther = errors.New("another dictionary")

func (o onlyDict) Dictionary(number uint32) (*codec.Dict, error) {
	if number != o.d.Number() {
		return nil, errOther
	}
	return o.d, nil
}
