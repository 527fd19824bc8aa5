package ruledict

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/pack"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// Options say what is walked, and how dictionaries are trained.
type Options struct {
	Store   store.Store
	Policy  *policy.Policy // without dictionaries for the rules that are Auto
	Sealer  *cinch.Sealer
	Timeout time.Duration // of each question whether the store has a dictionary
	// DryRun puts nothing into the store, also not what should be there: new dictionaries go into Local.
	DryRun bool
	Local  *dict.Set

	Walk      pack.Options // without a Task: how fast to go over the store
	Trainer   autodict.TrainerOptions
	NoSample  map[string][]string // patterns of keys not to be learnt from, by rule
	MaxSample int                 // see autodict.Options
	MinSaving float64             // likewise

	Tell     func(Outcome)    // nil: nobody is told
	Learning func(going bool) // told when it begins to walk for samples, and when that has ended; nil: nobody is
}

// Outcome is what a rule gets that gateways have made no dictionary for.
type Outcome struct {
	Rule    string
	Trained *codec.Dict // nil: it goes without
	Several bool        // because values may be of several users, of whom none may see pieces of another's
}

// Choose is the policy with dictionaries for the rules that are Auto, as far as the store allows new values to name
// them. A rule for which nothing is worth it seals without, and so does one whose dictionaries are
// of one login each where several users may have written.
func Choose(ctx context.Context, o Options) (*policy.Policy, error) {
	c := chooser{Options: o, chosen: map[string]policy.Choice{}}
	c.login, c.one = o.Store.Writer(ctx)
	c.takeRecorded(ctx)
	if missing := c.missing(); len(missing) > 0 {
		if err := c.train(ctx, missing); err != nil {
			return nil, err
		}
	}
	return o.Policy.With(c.chosen), ctx.Err()
}

type chooser struct {
	Options
	login  string // of the user whom all values are of
	one    bool   // there is one
	chosen map[string]policy.Choice
}

// missing are the rules that a dictionary has to be trained for.
func (c *chooser) missing() (some []*policy.Rule) {
	for _, r := range c.Policy.Rules() {
		_, has := c.chosen[r.Name]
		switch {
		case !r.Auto || has:
		case c.mayName(r):
			some = append(some, r)
		default:
			c.tell(Outcome{Rule: r.Name, Several: true})
		}
	}
	return some
}

// mayName reports that values under a rule may share a dictionary: it shows pieces of what it was made of, and
// nobody knows who wrote what is stored.
func (c *chooser) mayName(r *policy.Rule) bool { return c.one || r.Shared }

func (c *chooser) tell(o Outcome) {
	if c.Tell != nil {
		c.Tell(o)
	}
}
