package ruledict

import (
	"context"

	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// useRecorded chooses the dictionaries that gateways have made.
func (c *chooser) useRecorded(ctx context.Context) {
	for _, r := range c.Policy.Rules() {
		if !r.Auto {
			continue
		}
		for _, login := range c.logins(r) {
			if number := c.recordedDict(ctx, dictionary.FingerprintFor(r, login)); number != 0 {
				c.choose(r, login, policy.Choice{Dict: number})
			}
		}
	}
}

// recordedDict returns the dictionary in force for a rule, by its fingerprint; 0 if none may be named.
func (c *chooser) recordedDict(ctx context.Context, fingerprint string) uint32 {
	d := c.Store.Dicts()
	text, _, err := d.Record(ctx, fingerprint)
	if err != nil || text == "" {
		return 0
	}
	record, err := dictionary.ParseRecord(text)
	if err != nil || record.Current == nil {
		return 0
	}
	number := uint32(record.Current.Dict)
	if c.DryRun {
		_, err = d.Dictionary(number)
	} else if err = store.PublishByNumber(ctx, d, number); err == nil && !store.ReadyNow(ctx, d, number, c.Timeout) {
		return 0
	}
	if err != nil {
		return 0
	}
	return number
}
