package ruledict

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/pack"
)

// Options configure the walk and the training of dictionaries.
type Options struct {
	Store   store.Store
	Policy  *policy.Policy // without dictionaries for Auto rules
	Sealer  *envelope.Sealer
	Timeout time.Duration // of each check whether the store has a dictionary
	// DryRun stores nothing in the store: new dictionaries go into Local.
	DryRun bool
	Local  *dict.Set

	Walk      pack.Options // without a Task: limits for walks
	Trainer   dictionary.TrainerOptions
	NoSample  map[string][]string // key patterns excluded from training, by rule
	MaxSample int                 // see dictionary.Options
	MinSaving float64             // see dictionary.Options

	Tell       func(Outcome)    // nil: none
	OnSampling func(going bool) // called before and after a walk for samples; nil: not called
}

// Outcome is the result for a rule for which gateways have made no dictionary.
type Outcome struct {
	Rule    string
	Waits   bool        // no result yet: a gateway or another packer trains the rule's dictionary
	Dict    *codec.Dict // trained here or meanwhile elsewhere; nil: the rule goes without
	Trouble string      // why a dictionary could not be used; "": none was worth it
	Several bool        // not trained: users must not see pieces of each other's values
}

// Choose returns the policy with dictionaries for its Auto rules, as far as the store allows new values to
// name them. A rule for which no dictionary pays off gets none. Neither does a rule with separate
// dictionaries by login if several users may have written the values.
func Choose(ctx context.Context, o Options) (*policy.Policy, error) {
	c := chooser{Options: o, chosen: map[string]policy.Choice{}}
	c.login, c.sole = o.Store.SoleWriter(ctx)
	c.useRecorded(ctx)
	if missing := c.missing(); len(missing) > 0 {
		if err := c.train(ctx, missing); err != nil {
			return nil, err
		}
	}
	return o.Policy.With(c.chosen), ctx.Err()
}

type chooser struct {
	Options
	login  string // of the only user that may have written the values; see sole
	sole   bool   // there is only one such user
	chosen map[string]policy.Choice
}

// missing returns the rules that need a new dictionary.
func (c *chooser) missing() (some []*policy.Rule) {
	for _, r := range c.Policy.Rules() {
		_, has := c.chosen[r.Name]
		switch {
		case !r.Auto || has:
		case c.mayShare(r):
			some = append(some, r)
		default:
			c.tell(Outcome{Rule: r.Name, Several: true})
		}
	}
	return some
}

// mayShare reports whether values under a rule may share a dictionary. A dictionary contains pieces of the
// values it was trained on, and the writer of a stored value is unknown.
func (c *chooser) mayShare(r *policy.Rule) bool { return c.sole || r.Shared }

func (c *chooser) tell(o Outcome) {
	if c.Tell != nil {
		c.Tell(o)
	}
}
