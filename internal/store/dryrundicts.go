package store

import (
	"context"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
)

// DryRun returns d without side effects: Publish adds to local only, and nothing is written to the store.
func DryRun(d Dicts, local *dict.Set) Dicts { return &dryRun{d, local} }

type dryRun struct {
	Dicts
	local *dict.Set
}

func (d *dryRun) Publish(_ context.Context, dicts ...*codec.Dict) error {
	for _, x := range dicts {
		if err := d.local.Add(x); err != nil {
			return err
		}
	}
	return nil
}

func (d *dryRun) Ready(uint32) bool   { return true }
func (d *dryRun) Retired(uint32) bool { return false }

func (d *dryRun) Record(context.Context, string) (string, uint64, error) { return "", 0, nil }

func (d *dryRun) ReplaceRecord(_ context.Context, _ string, version uint64, _ string) (uint64, error) {
	return version + 1, nil
}
