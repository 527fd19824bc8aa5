package dictionary

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
	"github.com/cinch-layer/cinch/internal/policy"
)

// TrainerOptions configure a Trainer. NewEngine is required.
type TrainerOptions struct {
	// NewEngine makes an engine for one training. It is discarded afterwards, with all that it prepared for
	// dictionaries that were not chosen.
	NewEngine func() *codec.Engine
	External  dict.Trainer // such as libzstd's; nil: none
	Share     float64      // share of one core for training; 0: 0.5
}

// Trainer trains dictionaries, one at a time. The gateways of a process share one. The result depends only on
// the samples: the bytes used for training and judging are limited, not the time, so a busy machine gets the
// same dictionary later. Training takes steps of at most some seconds of CPU, each followed by a rest, so
// that it uses no more than its share of a core. (Threads with a lower priority would be worse: one that
// waits for the processor holds up the garbage collector of the whole process.)
type Trainer struct {
	o    TrainerOptions
	turn chan struct{} // holds a token while a training runs

	worked   atomic.Int64 // CPU time, nanoseconds
	inMemory atomic.Int64 // bytes of samples in use
}

// NewTrainer returns an idle Trainer.
func NewTrainer(o TrainerOptions) *Trainer {
	if o.Share <= 0 || o.Share > 1 {
		o.Share = 0.5
	}
	return &Trainer{o: o, turn: make(chan struct{}, 1)}
}

// Worked returns the CPU time spent, on one core.
func (t *Trainer) Worked() time.Duration { return time.Duration(t.worked.Load()) }

// InMemory returns the bytes of the samples of the running training, 0 if there is none.
func (t *Trainer) InMemory() int64 { return t.inMemory.Load() }

// limits bound what a training costs. More values hardly improve dictionaries.
type limits struct {
	training, trainingBytes     int // of values from which content is selected
	validation, validationBytes int // of values for judging
	segments                    []int
	sizes                       []int
}

var (
	// thorough takes up to some seconds of CPU.
	thorough = limits{
		training: 6000, trainingBytes: 4 << 20, validation: 2000, validationBytes: 2 << 20,
		segments: dict.SegmentLens, sizes: dict.Sizes,
	}
	// quick takes less than one, for a first dictionary. It is replaced soon, so a large one would not pay.
	quick = limits{
		training: 2000, trainingBytes: 512 << 10, validation: 256, validationBytes: 256 << 10,
		segments: []int{400}, sizes: []int{4 << 10, 8 << 10, 16 << 10},
	}
)

// level returns the level of log lines that come at each training.
func (k *task) level() slog.Level {
	if k.looks {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}

// choice is the dictionary and level for a rule.
type choice struct {
	dict  *codec.Dict // nil: none
	level int         // lower than the rule's and as good with dict; 0: the rule's
}

func (c choice) is(number uint32) bool { return c.dict != nil && c.dict.Number() == number }

// policy converts the choice to a policy.Choice.
func (c choice) policy() policy.Choice {
	if c.dict == nil {
		return policy.Choice{}
	}
	return policy.Choice{Dict: c.dict.Number(), Level: c.level}
}

// task holds the inputs of one training.
type task struct {
	rule    *policy.Rule // as given, without a dictionary
	current choice       // in use
	samples [][]byte
	volume  float64                   // raw bytes to weigh the dictionary's cost against
	saving  float64                   // smallest share of what is stored now that must be saved
	price   func(*codec.Dict) float64 // bytes that the store needs for a dictionary; nil: its size
	going   func(Step)                // called before each step, if not nil
	quick   bool                      // a good dictionary soon, instead of the best
	looks   bool                      // nothing useful was found before: see schedule.looks
	last    bool                      // no more samples than these will be kept

	// For a sample without a store:
	cost      func(raw, sealed int) (before, after int) // bytes that the store needs for a value; nil: by the rule's types
	worth     func(raw, sealed int) bool                // whether a value is stored compressed; nil: as the rule says
	keepLevel bool                                      // no level but the rule's is tried
}

// accounting returns how many bytes the store needs for a value, and whether it is stored compressed.
func (k *task) accounting() (cost func(raw, sealed int) (before, after int), worth func(raw, sealed int) bool) {
	if k.cost != nil {
		return k.cost, k.worth
	}
	t := valueType(k.rule)
	return func(raw, sealed int) (before, after int) { return policy.Cost(t, raw, sealed) }, k.rule.SavesEnoughFunc(t)
}

// areLong reports whether a quick training would have too few of the samples, since they are long.
func (k *task) areLong() bool {
	bytes := 0
	for _, v := range k.samples {
		bytes += len(v)
	}
	return bytes > len(k.samples)*quick.trainingBytes/fewestQuick
}

// fewestQuick is the smallest number of values that a quick training is to learn from.
const fewestQuick = 32

func (k *task) limits() *limits {
	if k.quick {
		return &quick
	}
	return &thorough
}

// result is the best dictionary found. Ratios are of stored to raw bytes as the server allocates them, with envelopes,
// and with values that gain nothing uncompressed. They are measured on samples not used for training.
type result struct {
	dict      *codec.Dict // nil: none was found
	best      *candidate  // from which dict was made
	level     int         // to use with dict, 0: the rule's own
	algorithm string
	before    float64 // ratio with the current setting
	promised  float64 // ratio with dict
	values    int     // number of values judged
	refused   string  // why dict is not used, "" if it is
	volume    float64 // from the task
	quick     bool    // from the task
	cpu       time.Duration
}

// Step is the current step of a training. The zero value means none.
type Step struct {
	Number, Of int    // some numbers are left out
	Trying     string // description for people: `cover of 16 KiB`
}

func (r result) levelOf(rule *policy.Rule) int { return cmp.Or(r.level, rule.Setting.Level) }

// Reasons why a dictionary is not rolled out.
const (
	refusedSamples = "samples"    // not enough to learn from, or no dictionary could be made
	refusedSaving  = "saving"     // too little saved
	refusedStore   = "store"      // the store could not be asked, or refused
	refusedRace    = "overtaken"  // another gateway was faster
	refusedStopped = "stopped"    // the process is ending
	refusedUnready = "not_usable" // new values may not name it yet, as on a replica
)

// train looks for a better dictionary. It waits for its turn, and rests between steps.
func (t *Trainer) train(ctx context.Context, k task) result {
	if !t.acquire(ctx) {
		return result{refused: refusedStopped}
	}
	defer func() { <-t.turn }()
	s := search{trainer: t, task: k, ctx: ctx, engine: t.o.NewEngine()}
	var inMemory int64
	s.training, s.validation, inMemory = divide(k.samples, k.limits())
	t.inMemory.Store(inMemory)
	defer t.inMemory.Store(0)
	r := s.run()
	r.cpu = s.cpu
	return r
}

// compare returns the ratios of the values with the current choice and with another one.
func (t *Trainer) compare(ctx context.Context, k task, other choice) (current, with float64, ok bool) {
	if !t.acquire(ctx) {
		return 0, 0, false
	}
	defer func() { <-t.turn }()
	s := search{trainer: t, task: k, ctx: ctx, engine: t.o.NewEngine()}
	s.validation = reservoir.Bounded(k.samples, thorough.validation, thorough.validationBytes)
	s.work("another gateway's dictionary", func() {
		current, with = s.ratio(k.current, s.validation), s.ratio(other, s.validation)
	})
	return current, with, true
}

func (t *Trainer) acquire(ctx context.Context) bool {
	select {
	case t.turn <- struct{}{}:
		return ctx.Err() == nil || func() bool { <-t.turn; return false }()
	case <-ctx.Done():
		return false
	}
}

// One in validationOf samples is used for judging. With fewer than fewSamples it is one in two, since a handful
// is not enough.
const (
	validationOf = 4
	fewSamples   = 256
)

// divide splits samples by a hash of their content, so that equal values are on the same side: judging by
// values seen in training would prove nothing. In the training part each value counts once; otherwise strings
// of a value that is written all the time would look common.
func divide(samples [][]byte, most *limits) (training, validation [][]byte, inMemory int64) {
	of := uint64(validationOf)
	if len(samples) < fewSamples {
		of = 2
	}
	seen := map[uint64]struct{}{}
	for _, s := range samples {
		inMemory += int64(len(s))
		sum := xxh3.Hash(s)
		if sum%of == 0 {
			validation = append(validation, s)
		} else if _, again := seen[sum]; !again {
			seen[sum] = struct{}{}
			training = append(training, s)
		}
	}
	return reservoir.Bounded(training, most.training, most.trainingBytes), reservoir.Bounded(validation, most.validation, most.validationBytes), inMemory
}
