package main

import (
	"context"
	"fmt"

	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/open"
)

// withManaged is the policy with the dictionaries that gateways have made for its rules
// with `dictionary: auto`, as far as the store allows new values to name them. Rules for
// which there is none yet seal without, and so do those whose dictionaries are of one login each, where
// several users may have written.
func (w *where) withManaged(ctx context.Context, dryRun bool) *policy.Policy {
	choose := map[string]policy.Choice{}
	login, one := w.store.Writer(ctx)
	for _, r := range w.policy.Rules() {
		if !r.Auto || !one && !r.Shared {
			continue
		}
		if number := w.managed(ctx, autodict.FingerprintFor(r, login), dryRun); number != 0 {
			choose[r.Name] = policy.Choice{Dict: number}
		}
	}
	return w.policy.With(choose)
}

// managed is the dictionary in force for a rule, by its fingerprint; 0 if there is none
// that may be named. A dry run puts nothing into the store, also not what should be there.
func (w *where) managed(ctx context.Context, fingerprint string, dryRun bool) uint32 {
	d := w.store.Dicts()
	text, _, err := d.Record(ctx, fingerprint)
	if err != nil || text == "" {
		return 0
	}
	record, err := autodict.ParseRecord(text)
	if err != nil || record.Current == nil {
		return 0
	}
	number := uint32(record.Current.Dict)
	if dryRun {
		_, err = d.Dictionary(number)
	} else if err = publish(ctx, d, []uint32{number}); err == nil && !ready(d)(number) {
		return 0
	}
	if err != nil {
		return 0
	}
	return number
}

// publish puts dictionaries where values are about to name them.
func publish(ctx context.Context, d store.Dicts, numbers []uint32) error {
	for _, number := range numbers {
		x, err := d.Dictionary(number)
		if err != nil {
			return fmt.Errorf("dictionary %08x: %w", number, err)
		}
		if err := d.Publish(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

// ready reports that values may name a dictionary. It may ask the server.
func ready(d store.Dicts) func(uint32) bool {
	return func(number uint32) bool { return store.ReadyNow(context.Background(), d, number, open.AnswerTimeout) }
}
