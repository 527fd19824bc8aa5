package dictionary

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// announcer shares a rule's dictionaries with the other gateways of a store by means of the rule's record. It
// holds the record as last read or written. It is not safe for concurrent use.
type announcer struct {
	o     *Options
	name  string            // of the record
	stats func() *ruleStats // where trouble is logged

	record  Record
	version uint64 // of record
}

// read reads the record and reports whether it succeeded.
func (a *announcer) read(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	text, version, err := a.o.Store.Record(ctx, a.name)
	if err != nil {
		a.o.logged.warn(a.o.Log, troubleRead, err, a.o.hint(err)...)
		return false
	}
	a.o.logged.resolve(troubleRead)
	record, err := ParseRecord(text)
	if err != nil {
		a.stats().logged.warn(a.stats().log, troubleRecord, err)
		return false
	}
	a.stats().logged.resolve(troubleRecord)
	if version == 0 && a.record.Current != nil {
		// The store lost it, for example by FUNCTION FLUSH. Store restores the dictionaries.
		record = a.record.withoutLease()
		record.Seen = a.o.now().UTC().Truncate(time.Second)
		if version, err = a.o.Store.ReplaceRecord(ctx, a.name, 0, record.text()); version == 0 || err != nil {
			return false
		}
	}
	a.record, a.version = record, version
	return true
}

// seenMaxAge is the largest age of a record's Seen.
const seenMaxAge = 24 * time.Hour

// refresh updates Seen if it is too old, so that the collection of dictionaries knows that the rule exists.
// It reports false if the record has changed meanwhile.
func (a *announcer) refresh(ctx context.Context) bool {
	if a.version == 0 || a.o.now().Sub(a.record.Seen) < seenMaxAge {
		return true
	}
	return a.replace(ctx, a.record) == ""
}

// leasedByAnother reports whether another gateway's lease advises against training now.
func (a *announcer) leasedByAnother() bool {
	return a.record.leasedByAnother(a.o.By, a.o.now(), a.o.Lease)
}

// lease announces a training to the other gateways. It returns why the training should not begin: another
// gateway was faster, or the store can't keep records.
func (a *announcer) lease(ctx context.Context) (refused string) {
	return a.replace(ctx, a.record.withLease(a.o.By, a.o.now().Add(a.o.Lease)))
}

// keepLease renews the lease while a training runs, however slow the machine is. If another gateway has taken
// over, rollOut will notice.
func (a *announcer) keepLease(ctx context.Context) {
	if now := a.o.now(); a.record.Lease != nil && a.record.Lease.Until.Sub(now) < a.o.Lease/2 {
		a.replace(ctx, a.record.withLease(a.o.By, now.Add(a.o.Lease)))
	}
}

// release ends a lease under which nothing was stored.
func (a *announcer) release(ctx context.Context) {
	if l := a.record.Lease; l != nil && l.By == a.o.By && ctx.Err() == nil && l.Dict == 0 {
		a.replace(ctx, a.record.withoutLease())
	}
}

// rollOut makes d the rule's current dictionary, step by step. v describes d in the record; rollOut sets v.At. rule
// and login are written to the record too. It returns why it failed, or "".
func (a *announcer) rollOut(ctx context.Context, d *codec.Dict, v *Version, rule, login string) (refused string) {
	if refused = a.replace(ctx, a.record.withPending(v.Dict, a.o.now().Add(a.o.Lease))); refused != "" {
		return refused
	}
	if err := a.publish(ctx, d); err != nil {
		a.stats().logged.warn(a.stats().log, troubleStore, err)
		return refusedStore
	}
	a.stats().logged.resolve(troubleStore)
	if !a.o.Store.Ready(d.Number()) {
		return refusedUnready
	}
	v.At = a.o.now().UTC()
	next := a.record.withCurrent(*v)
	next.Rule, next.Login = rule, login
	return a.replace(ctx, next)
}

// fetch returns an announced dictionary, and makes sure that new values may name it. It returns nil if the
// dictionary can't be read or is retired.
func (a *announcer) fetch(ctx context.Context, v *Version) *codec.Dict {
	d, err := a.o.Store.Dictionary(uint32(v.Dict))
	if err == nil {
		err = a.publish(ctx, d) // it is stored already; this makes it ready
	}
	if err != nil {
		a.stats().logged.warn(a.stats().log, troubleFetch, err)
		return nil
	}
	a.stats().logged.resolve(troubleFetch)
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

// replace replaces the record that was read last. It returns why it failed: another gateway was faster, or
// the store refused or did not answer. In the last case the record may have been written; the next read will
// show.
func (a *announcer) replace(ctx context.Context, next Record) (refused string) {
	ctx, cancel := context.WithTimeout(ctx, a.o.Timeout)
	defer cancel()
	next.Seen = a.o.now().UTC().Truncate(time.Second)
	version, err := a.o.Store.ReplaceRecord(ctx, a.name, a.version, next.text())
	switch {
	case err != nil:
		a.o.logged.warn(a.o.Log, troubleWrite, err, a.o.hint(err)...)
		return refusedStore
	case version == 0:
		return refusedRace
	}
	a.o.logged.resolve(troubleWrite)
	a.record, a.version = next, version
	return ""
}
