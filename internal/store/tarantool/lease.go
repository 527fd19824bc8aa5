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

// turn is the entry of one lease.
type turn struct {
	Holder string    `json:"holder,omitempty"` // "": it is a pause
	Until  time.Time `json:"until"`
}

// Lease returns the lease called name for holder, which must be unique.
func (d *Dicts) Lease(name, holder string) *Lease { return &Lease{d.records, name, holder} }

// Take implements store.Lease.
func (l *Lease) Take(ctx context.Context, hold time.Duration) (wait time.Duration, err error) {
	err = l.change(ctx, func(now turn, there bool) (turn, bool) {
		if wait = 0; there {
			wait = max(time.Until(now.Until), time.Millisecond)
			return now, false
		}
		return turn{l.holder, time.Now().Add(hold)}, true
	})
	return wait, err
}

// Keep implements store.Lease.
func (l *Lease) Keep(ctx context.Context, hold time.Duration) (kept bool, err error) {
	err = l.change(ctx, func(now turn, there bool) (turn, bool) {
		kept = there && now.Holder == l.holder
		return turn{l.holder, time.Now().Add(hold)}, kept
	})
	return kept && err == nil, err
}

// Finish implements store.Lease.
func (l *Lease) Finish(ctx context.Context, pause time.Duration) error {
	return l.change(ctx, func(now turn, there bool) (turn, bool) {
		return turn{"", time.Now().Add(pause)}, there && now.Holder == l.holder
	})
}

// change replaces the lease's entry by the result of to, unless to returns false. there is false for an entry
// that has ended.
func (l *Lease) change(ctx context.Context, to func(now turn, there bool) (turn, bool)) error {
	for range leaseTries {
		text, version, err := l.records.Record(ctx, turnsRecord)
		if err != nil {
			return err
		}
		turns := map[string]turn{}
		if err := json.Unmarshal([]byte(text), &turns); err != nil && text != "" {
			turns = map[string]turn{} // empty: an unreadable record would stop all for good
		}
		now, there := turns[l.name]
		next, do := to(now, there && time.Until(now.Until) > 0)
		if !do {
			return nil
		}
		turns[l.name] = next
		if written, err := l.records.ReplaceRecord(ctx, turnsRecord, version, turnsText(turns)); err != nil || written != 0 {
			return err
		}
	}
	return fmt.Errorf("%w: %s", errContended, l.name)
}

func turnsText(turns map[string]turn) string {
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
