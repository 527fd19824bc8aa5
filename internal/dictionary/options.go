package dictionary

import (
	"context"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// Options configure a Manager. Store, Trainer and Apply are required.
type Options struct {
	By      string // this gateway's name among others, unique while the process lives
	Store   store.Dicts
	Trainer *Trainer
	Apply   func(*policy.Policy) // puts a policy into force; calls are serialized
	Log     *slog.Logger         // nil: nothing is logged
	Hint    string               // logged with errors: what the store needs; "": nothing

	// Unavailable reports whether err means that the store can't be reached now. Then Hint would mislead and
	// is left out.
	Unavailable func(err error) bool // nil: never

	MaxSample  int           // largest value sampled, in bytes; 0: 128 KiB
	MinSamples int           // values; 0: 100
	MinSaving  float64       // share of what is stored now that a rollout must save; 0: 0.1
	Drift      float64       // 0: 0.15
	Interval   time.Duration // between trainings for a rule; 0: 10 min
	Poll       time.Duration // between reads of the records; 0: 15 s
	Lease      time.Duration // of a training, renewed while it runs; 0: 5 min
	Timeout    time.Duration // for each call of the store; 0: 10 s

	logged *onceLogger // troubles with the store as a whole; set by setDefaults

	// For tests.
	now   func() time.Time                   // nil: time.Now
	train func(context.Context, task) result // nil: Trainer's
}

func (o *Options) setDefaults() {
	setDefault(&o.MaxSample, 128<<10)
	setDefault(&o.MinSamples, 100)
	setDefault(&o.MinSaving, 0.1)
	setDefault(&o.Drift, 0.15)
	setDefault(&o.Interval, 10*time.Minute)
	setDefault(&o.Poll, 15*time.Second)
	setDefault(&o.Lease, 5*time.Minute)
	setDefault(&o.Timeout, 10*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.logged = new(onceLogger)
	if o.now == nil {
		o.now = time.Now
	}
	if o.train == nil && o.Trainer != nil {
		o.train = o.Trainer.train
	}
}

// hint returns log attributes with Hint for an error of the store.
func (o *Options) hint(err error) []any {
	if o.Hint == "" || o.Unavailable != nil && o.Unavailable(err) {
		return nil
	}
	return []any{"hint", o.Hint}
}

func setDefault[T int | float64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}
