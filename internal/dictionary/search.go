package dictionary

import (
	"cmp"
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
	cpu                  time.Duration
}

// candidate is a dictionary that a search has made.
type candidate struct {
	dict  *codec.Dict
	from  dict.TrainOptions // of the selection that it was cut from
	size  int
	cost  float64 // bytes that the store needs for it
	ratio float64 // on the values of the last round
}

// work runs f as the next step, and then rests, so that both together use the trainer's share of a core.
func (s *search) work(trying string, f func()) {
	s.step.Number, s.step.Trying = s.step.Number+1, trying
	if s.task.going != nil {
		s.task.going(s.step)
	}
	d := cputime.Of(f)
	s.cpu += d
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
	methods, lower := s.methods(), s.lowerLevels()
	s.step.Of = 1 + len(methods) + len(s.rounds()) + len(lower) + 1
	r := result{values: len(s.validation), refused: refusedSamples}
	s.work("the current dictionary", func() { r.before = s.ratio(s.task.current, s.validation) })
	var all []candidate
	for _, o := range methods {
		s.work(nameOf(o), func() { all = append(all, s.candidates(o)...) })
	}
	if best := s.judge(all); best != nil {
		r.dict, r.best, r.algorithm, r.promised = best.dict, best, algorithmName(best.from.Algorithm), best.ratio
		s.tryLevels(&r, lower)
		s.useAll(&r, best)
	}
	return s.decide(r)
}

// methods returns the ways in which content is selected from the samples.
func (s *search) methods() (all []dict.TrainOptions) {
	for _, k := range s.task.limits().segments {
		all = append(all, dict.TrainOptions{Algorithm: dict.Cover, Segment: k})
	}
	if s.trainer.o.External != nil && !s.task.quick {
		all = append(all, dict.TrainOptions{Algorithm: dict.External, External: s.trainer.o.External})
	}
	sizes := s.sizes()
	for i := range all {
		all[i].Size = sizes[len(sizes)-1]
	}
	return all
}

func nameOf(o dict.TrainOptions) string {
	if o.Algorithm == dict.Cover {
		return fmt.Sprintf("segments of %d bytes", o.Segment)
	}
	return algorithmName(o.Algorithm)
}

// candidates returns dictionaries of all sizes that samples have content for.
func (s *search) candidates(o dict.TrainOptions) (all []candidate) {
	if s.ctx.Err() != nil {
		return nil
	}
	selection, err := dict.Select(s.training, o)
	if err != nil {
		return nil
	}
	for _, size := range s.sizes() {
		if d, err := selection.Dict(size); err == nil {
			all = append(all, candidate{dict: d, from: o, size: size, cost: s.task.dictCost(d)})
		}
		if size >= selection.Len() {
			break
		}
	}
	return all
}

// All candidates are judged by firstRound values. Each later round judges the better third, and at least finalists, by
// four times as many.
const (
	firstRound = 64
	moreValues = 4
	fewerLeft  = 3
	finalists  = 3
)

// rounds returns the numbers of values for judging.
func (s *search) rounds() (all []int) {
	for n := firstRound; n < len(s.validation); n *= moreValues {
		all = append(all, n)
	}
	return append(all, len(s.validation))
}

// judge returns the candidate that costs least; nil if there is none.
func (s *search) judge(all []candidate) *candidate {
	if len(all) == 0 {
		return nil
	}
	for round, n := range s.rounds() {
		if round > 0 {
			all = all[:min(len(all), max(len(all)/fewerLeft, finalists))]
		}
		s.work(fmt.Sprintf("%d dictionaries on %d values", len(all), n), func() {
			for i := range all {
				if all[i].ratio = hopeless; s.ctx.Err() == nil {
					all[i].ratio = s.ratio(choice{dict: all[i].dict}, s.validation[:n])
				}
			}
		})
		slices.SortStableFunc(all, func(a, b candidate) int {
			return cmp.Compare(a.ratio*s.task.volume+a.cost, b.ratio*s.task.volume+b.cost)
		})
	}
	if all[0].ratio == hopeless {
		return nil
	}
	return &all[0]
}

// levels are tried if below the rule's own. With a dictionary a higher level is often no better: what the
// dictionary leaves of a value are short matches, which the strategies of some levels don't look for.
var levels = []int{15, 12, 9, 6, 3, 1}

// asGoodLevel is the factor by which a lower level may store more, since it needs less CPU.
const asGoodLevel = 1.002

// tryLevels looks for a level below the rule's that does as well with the best dictionary. It never tries a
// higher one: the user decides how much CPU compression may cost.
func (s *search) tryLevels(best *result, lower []int) {
	least := best.promised
	for _, level := range lower {
		if s.ctx.Err() != nil {
			return
		}
		s.work(fmt.Sprintf("level %d", level), func() {
			if got := s.ratio(choice{best.dict, level}, s.validation); got <= least*asGoodLevel {
				best.level, best.promised, least = level, got, min(least, got)
			}
		})
	}
}

// useAll makes the best dictionary again, of the values for judging too, if that stays within a training's limits:
// with few documents another quarter helps. The promised ratio stays the one measured on values not used for training.
// A quick training leaves those out that will judge its dictionary in the thorough one.
func (s *search) useAll(r *result, best *candidate) {
	more := unique(s.validation)
	if s.task.quick {
		more = slices.DeleteFunc(more, func(v []byte) bool { return xxh3.Hash(v)%validationOf == 0 })
	}
	all, limits := append(slices.Clip(s.training), more...), s.task.limits()
	if s.ctx.Err() != nil || len(reservoir.Bounded(all, limits.training, limits.trainingBytes)) < len(all) {
		return
	}
	s.work("all values", func() {
		if d, err := best.again(all); err == nil && s.ratio(choice{d, r.level}, s.validation) <= r.promised {
			r.dict = d
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
		if !s.task.keepLevel && level < s.task.rule.Setting.Level {
			lower = append(lower, level)
		}
	}
	return lower
}

// smallVolume is the volume, in bytes, up to which dictionaries of 1 and 2 KiB are tried too, since the cost
// of larger ones matters there.
const smallVolume = 2 << 20

// sizes returns the sizes to try, the largest last.
func (s *search) sizes() []int {
	sizes := s.task.limits().sizes
	if s.task.volume <= smallVolume {
		sizes = append([]int{1 << 10, 2 << 10}, sizes...)
	}
	return sizes
}

func algorithmName(a dict.Algorithm) string {
	if a == dict.External {
		return "libzstd"
	}
	return a.String()
}

// dictCost returns the bytes that the store will need for a dictionary.
func (k *task) dictCost(d *codec.Dict) float64 {
	if k.price != nil {
		return k.price(d)
	}
	return float64(len(d.Content()))
}

func (s *search) decide(r result) result {
	switch {
	case s.ctx.Err() != nil:
		r.refused = refusedStopped
	case r.dict == nil:
	case r.promised*s.task.volume+s.task.dictCost(r.dict) > (1-s.task.saving)*r.before*s.task.volume:
		r.refused = refusedSaving
	default:
		r.refused = ""
	}
	return r
}

// ratio compresses values as the gateway would, and decompresses them again. A dictionary that fails to restore a value
// gets the ratio hopeless.
func (s *search) ratio(c choice, values [][]byte) float64 {
	st, o := s.task.rule.Setting, envelope.SealerOptions{Engine: s.engine}
	st.Dict = 0
	if c.dict != nil {
		st.Dict, o.Dicts = c.dict.Number(), onlyDict{c.dict}
	}
	if c.level > 0 && c.level < st.Level {
		st.Level = c.level
	}
	sealer := envelope.NewSealer(o)
	cost, worth := s.task.accounting()
	raw, stored := 0, 0
	var sealed, opened []byte
	var err error
	for _, v := range values {
		sealed = sealer.Seal(sealed[:0], v, st, worth)
		if opened, err = sealer.Open(opened[:0], sealed); err != nil || !slices.Equal(opened, v) {
			return hopeless
		}
		before, after := cost(len(v), len(sealed))
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
