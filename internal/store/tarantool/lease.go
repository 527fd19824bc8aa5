package tarantool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// errContended: the record was changed during every attempt to replace it.
var errContended = errors.New("the record of leases keeps changing")

const leaseTries = 10

// A Lease implements store.Lease. It uses its holders' clocks: if one is wrong, two holders may work at the
// same time, or pauses get longer.
type Lease struct {
	records      records
	name, holder string
}

// leaseEntry is the entry of one lease.
type leaseEntry struct {
	Holder string    `json:"holder,omitempty"` // "": it is a pause
	Until  time.Time `json:"until"`
}

// Lease returns the lease called name for holder, which must be unique.
func (d *Dicts) Lease(name, holder string) *Lease { return &Lease{d.records, name, holder} }

// Acquire implements store.Lease.
func (l *Lease) Acquire(ctx context.Context, hold time.Duration) (wait time.Duration, err error) {
	err = l.change(ctx, func(now leaseEntry, there bool) (leaseEntry, bool) {
		if wait = 0; there {
			wait = max(time.Until(now.Until), time.Millisecond)
			return now, false
		}
		return leaseEntry{l.holder, time.Now().Add(hold)}, true
	})
	return wait, err
}

// Renew implements store.Lease.
func (l *Lease) Renew(ctx context.Context, hold time.Duration) (kept bool, err error) {
	err = l.change(ctx, func(now leaseEntry, there bool) (leaseEntry, bool) {
		kept = there && now.Holder == l.holder
		return leaseEntry{l.holder, time.Now().Add(hold)}, kept
	})
	return kept && err == nil, err
}

// Release implements store.Lease.
func (l *Lease) Release(ctx context.Context, pause time.Duration) error {
	return l.change(ctx, func(now leaseEntry, there bool) (leaseEntry, bool) {
		return leaseEntry{"", time.Now().Add(pause)}, there && now.Holder == l.holder
	})
}

// change calls the function to with the lease's entry, and replaces the entry by the result unless to returns false.
// The argument there is false if there is no entry, or if it has ended.
func (l *Lease) change(ctx context.Context, to func(now leaseEntry, there bool) (leaseEntry, bool)) error {
	for range leaseTries {
		text, version, err := l.records.Record(ctx, leasesRecord)
		if err != nil {
			return err
		}
		turns := map[string]leaseEntry{}
		if err := json.Unmarshal([]byte(text), &turns); err != nil && text != "" {
			turns = map[string]leaseEntry{} // start over, since an unreadable record would stop all packers for ever
		}
		now, there := turns[l.name]
		next, do := to(now, there && time.Until(now.Until) > 0)
		if !do {
			return nil
		}
		turns[l.name] = next
		if written, err := l.records.ReplaceRecord(ctx, leasesRecord, version, formatLeases(turns)); err != nil || written != 0 {
			return err
		}
	}
	return fmt.Errorf("%w: %s", errContended, l.name)
}

func formatLeases(turns map[string]leaseEntry) string {
	for name, t := range turns {
		if time.Until(t.Until) <= 0 {
			delete(turns, name)
		}
	}
	b, err := json.Marshal(turns)
	if err != nil {
		panic(err) // a bug: these types marshal
	}
	return string(b)
}
