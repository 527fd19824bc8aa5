package main

import (
	"context"

	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/policy"
)

// withManaged is the policy with the dictionaries that gateways have made for its rules
// with `dictionary: auto`, as far as the store allows new values to name them. Rules for
// which there is none yet seal without.
func (w *where) withManaged(ctx context.Context, dryRun bool) *policy.Policy {
	choose := map[string]policy.Choice{}
	for _, r := range w.policy.Rules() {
		if !r.Auto {
			continue
		}
		if number := w.dicts.managed(ctx, autodict.Fingerprint(r), dryRun); number != 0 {
			choose[r.Name] = policy.Choice{Dict: number}
		}
	}
	return w.policy.With(choose)
}

// managed is the dictionary in force for a rule, by its fingerprint; 0 if there is none
// that may be named. A dry run puts nothing into the store, also not what should be there.
func (d *nodeDicts) managed(ctx context.Context, fingerprint string, dryRun bool) uint32 {
	for _, n := range d.nodes {
		text, _, err := n.Record(ctx, fingerprint)
		if err != nil || text == "" {
			continue
		}
		record, err := autodict.ParseRecord(text)
		if err != nil || record.Current == nil {
			continue
		}
		number := uint32(record.Current.Dict)
		if dryRun {
			_, err = d.Dictionary(number)
		} else if err = d.publish(ctx, []uint32{number}); err == nil && !d.ready(number) {
			continue
		}
		if err == nil {
			return number
		}
	}
	return 0
}
