package ruledict

import (
	"context"
	"slices"
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
	Trainer   *dictionary.Trainer
	NoSample  map[string][]string // key patterns excluded from training, by rule
	MaxSample int                 // see dictionary.Options
	MinSaving float64             // see dictionary.Options

	Tell       func(Outcome)    // nil: none
	OnSampling func(going bool) // called before and after a walk for samples; nil: not called
}

// Outcome is the result for a rule for which gateways have made no dictionary.
type Outcome struct {
	Rule    string
	Login   string        // whose values it is for, if there are several users; "": of all, or of the server's default user
	Waits   bool          // no result yet: a gateway or another packer trains the rule's dictionary
	Dict    *codec.Dict   // trained here or meanwhile elsewhere; nil: the rule goes without
	CPU     time.Duration // of the training here; 0: none was here
	Trouble string        // why a dictionary could not be used; "": none was worth it
	Several bool          // values that several users may have written get none: users must not see pieces of each other's
}

// Choose returns the policy with dictionaries for its Auto rules, as far as the store allows new values to name them,
// and who has written the store's values: each user whose values can be told from those of others has a dictionary of
// its own, and a rule for which no dictionary pays off gets none.
func Choose(ctx context.Context, o Options) (*policy.Policy, store.Writers, error) {
	c := chooser{Options: o, writers: o.Store.Writers(ctx), chosen: map[string]policy.Choice{}}
	c.useRecorded(ctx)
	if missing := c.missing(); len(missing) > 0 {
		if err := c.train(ctx, missing); err != nil {
			return nil, c.writers, err
		}
	}
	return o.Policy.With(c.chosen), c.writers, ctx.Err()
}

type chooser struct {
	Options
	writers store.Writers
	chosen  map[string]policy.Choice
}

// logins returns the logins that have dictionaries of their own under a rule; "" where all share one.
func (c *chooser) logins(r *policy.Rule) []string {
	if r.Shared {
		return []string{""}
	}
	return c.writers.Logins()
}

// choose sets the dictionary of a login under a rule.
func (c *chooser) choose(r *policy.Rule, login string, choice policy.Choice) {
	if r.Shared {
		c.chosen[r.Name] = choice
		return
	}
	if c.chosen[r.Name].Logins == nil {
		c.chosen[r.Name] = policy.Choice{Logins: map[string]policy.Choice{}}
	}
	c.chosen[r.Name].Logins[login] = choice
}

func (c *chooser) has(r *policy.Rule, login string) bool {
	chosen, ok := c.chosen[r.Name]
	if !r.Shared {
		_, ok = chosen.Logins[login]
	}
	return ok
}

// missing returns the rules that need a new dictionary for some login.
func (c *chooser) missing() (some []*policy.Rule) {
	for _, r := range c.Policy.Rules() {
		switch logins := c.logins(r); {
		case !r.Auto:
		case len(logins) == 0:
			c.tell(Outcome{Rule: r.Name, Several: true})
		case slices.ContainsFunc(logins, func(login string) bool { return !c.has(r, login) }):
			some = append(some, r)
		}
	}
	return some
}

func (c *chooser) tell(o Outcome) {
	if c.Tell != nil {
		c.Tell(o)
	}
}
