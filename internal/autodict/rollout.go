package autodict

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// announcer tells the other gateways of a store about the dictionaries of one rule, and hears what
// they tell. It knows the rule's record as it was read or written last, and is not for concurrent use.
type announcer struct {
	o     *Options
	name  string        // of the record
	tally func() *tally // where trouble is logged

	record  Record
	version uint64 // of it
}

// read reads the record, and reports whether that could be had.
func (a *announcer) read(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	text, version, err := a.o.Store.Record(ctx, a.name)
	if err != nil {
		a.o.told.meet(a.o.Log, troubleRead, err, a.o.hint(err)...)
		return false
	}
	a.o.told.settled(troubleRead)
	record, err := ParseRecord(text)
	if err != nil {
		a.tally().told.meet(a.tally().log, troubleRecord, err)
		return false
	}
	a.tally().told.settled(troubleRecord)
	if version == 0 && a.record.Current != nil {
		// The store lost it, by FUNCTION FLUSH say. Dictionaries are put back by Store.
		record = a.record.released()
		record.Seen = a.o.now().UTC().Truncate(time.Second)
		if version, err = a.o.Store.ReplaceRecord(ctx, a.name, 0, record.text()); version == 0 || err != nil {
			return false
		}
	}
	a.record, a.version = record, version
	return true
}

// refreshed is how old a record's Seen may get.
const refreshed = 24 * time.Hour

// refresh tells the collection of dictionaries that the rule is there still. It reports
// false when the record is another one by now.
func (a *announcer) refresh(ctx context.Context) bool {
	if a.version == 0 || a.o.now().Sub(a.record.Seen) < refreshed {
		return true
	}
	return a.replace(ctx, a.record) == ""
}

// leasedByAnother reports whether it is better not to train now.
func (a *announcer) leasedByAnother() bool {
	return a.record.leasedByAnother(a.o.By, a.o.now(), a.o.Lease)
}

// lease tells the others that a training begins. It returns why that is better not done: one of them was faster, or
// what it brings could not be kept.
func (a *announcer) lease(ctx context.Context) (refused string) {
	return a.replace(ctx, a.record.leasedTo(a.o.By, a.o.now().Add(a.o.Lease)))
}

// keepLease makes others wait while a training goes on, however slow the machine is. Should
// another gateway have taken over, the rollout will find out.
func (a *announcer) keepLease(ctx context.Context) {
	if now := a.o.now(); a.record.Lease != nil && a.record.Lease.Until.Sub(now) < a.o.Lease/2 {
		a.replace(ctx, a.record.leasedTo(a.o.By, now.Add(a.o.Lease)))
	}
}

// release gives back a lease under which nothing was stored.
func (a *announcer) release(ctx context.Context) {
	if l := a.record.Lease; l != nil && l.By == a.o.By && ctx.Err() == nil && l.Dict == 0 {
		a.replace(ctx, a.record.released())
	}
}

// rollOut makes d the rule's, step by step, as v, whose time it sets. rule and login are what the
// record is to name. It returns why it could not.
func (a *announcer) rollOut(ctx context.Context, d *codec.Dict, v *Version, rule, login string) (refused string) {
	if refused = a.replace(ctx, a.record.naming(v.Dict, a.o.now().Add(a.o.Lease))); refused != "" {
		return refused
	}
	if err := a.publish(ctx, d); err != nil {
		a.tally().told.meet(a.tally().log, troubleStore, err)
		return refusedStore
	}
	a.tally().told.settled(troubleStore)
	if !a.o.Store.Ready(d.Number()) {
		return refusedUnready
	}
	v.At = a.o.now().UTC()
	next := a.record.announcing(*v)
	next.Rule, next.Login = rule, login
	return a.replace(ctx, next)
}

// fetch gets what another gateway has announced, so that new values may name it; nil if that can't
// be had, or is retired.
func (a *announcer) fetch(ctx context.Context, v *Version) *codec.Dict {
	d, err := a.o.Store.Dictionary(uint32(v.Dict))
	if err == nil {
		err = a.publish(ctx, d) // it is there; now it is ready, too
	}
	if err != nil {
		a.tally().told.meet(a.tally().log, troubleFetch, err)
		return nil
	}
	a.tally().told.settled(troubleFetch)
	if a.o.Store.Retired(uint32(v.Dict)) {
		return nil
	}
	return d
}

func (a *announcer) publish(ctx context.Context, d *codec.Dict) error {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	return a.o.Store.Publish(ctx, d)
}

// replace puts a record in place of the one that was read last. It returns why it did not: another gateway was
// faster, or the store refuses or does not answer; then nobody knows, and the next reading will tell.
func (a *announcer) replace(ctx context.Context, next Record) (refused string) {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	next.Seen = a.o.now().UTC().Truncate(time.Second)
	version, err := a.o.Store.ReplaceRecord(ctx, a.name, a.version, next.text())
	switch {
	case err != nil:
		a.o.told.meet(a.o.Log, troubleWrite, err, a.o.hint(err)...)
		return refusedStore
	case version == 0:
		return refusedRace
	}
	a.o.told.settled(troubleWrite)
	a.record, a.version = next, version
	return ""
}
