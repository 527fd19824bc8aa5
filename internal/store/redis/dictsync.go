package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// Publish stores dictionaries in the server and reads each back before Ready is true for it. Every Recheck
// retries what can't be stored now. On a read-only replica Publish stores nothing and returns no error: Ready
// becomes true when a Recheck finds that the primary has sent the dictionary. Retired dictionaries are not
// stored either. Errors wrap ErrCollision, ErrEvictable, ErrDenied, ErrForeign or the client's error.
func (d *Dicts) Publish(ctx context.Context, dicts ...*codec.Dict) error {
	d.storing.Lock()
	defer d.storing.Unlock()
	var refused []error
	mine := make([]*codec.Dict, 0, len(dicts))
	for _, x := range dicts {
		if err := d.keep(x); err != nil {
			refused = append(refused, fmt.Errorf("dictionary %s: %w", name(x), err))
			continue
		}
		mine = append(mine, x)
	}
	d.startLease(d.now())
	return errors.Join(append(refused, d.check(ctx, mine))...)
}

// Recheck makes sure that the server still holds everything that was published or fetched, and restores what
// is missing. Afterwards Ready reports the result.
func (d *Dicts) Recheck(ctx context.Context) error {
	d.storing.Lock()
	defer d.storing.Unlock()
	began, ended := d.beginCheck()
	defer ended()
	all := d.all()
	if len(all) == 0 {
		return nil
	}
	d.startLease(began)
	return d.check(ctx, all)
}

func (d *Dicts) check(ctx context.Context, dicts []*codec.Dict) error {
	closely, err := d.toVerify(ctx, dicts)
	if err != nil {
		return d.checkFailed(ctx, dicts, err)
	}
	return d.store(ctx, closely)
}

// checkFailed makes dictionaries not ready, since they may have been retired.
func (d *Dicts) checkFailed(ctx context.Context, dicts []*codec.Dict, err error) error {
	if isAnswer(err) {
		var errs []error
		for _, x := range dicts {
			errs = append(errs, d.markRefused(x, err))
		}
		return errors.Join(errs...)
	}
	for _, x := range dicts {
		d.setReady(false, x.Number())
	}
	return d.reportUnreachable(ctx, err)
}

// toVerify returns the dictionaries that must be read from the server. It leaves out retired ones, of which it restores
// those that are lost, and those that were read back once and whose description is still there. On a server with
// functions that takes one command for all of them.
func (d *Dicts) toVerify(ctx context.Context, all []*codec.Dict) (closely []*codec.Dict, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	found, err := d.inventory(ctx, all)
	if err != nil {
		return nil, err
	}
	d.recordRetired(found, all)
	for _, x := range all {
		sum, there := found.live[x.Number()]
		switch {
		case found.isRetired(x.Number()):
			d.withhold(x, found)
			if found.isLost(x.Number()) { // by FUNCTION FLUSH, or a failover: values may name it
				if err := d.put(ctx, x); err != nil {
					return nil, err
				}
			}
		case there && sum == x.Hash() && d.verified[x.Number()]:
			d.markStored(x)
		default:
			closely = append(closely, x)
		}
	}
	return closely, nil
}

// withhold makes a retired dictionary not ready, and drops one that was forgotten.
func (d *Dicts) withhold(x *codec.Dict, found inventory) {
	d.setReady(false, x.Number())
	if d.isNew(name(x), "retired") {
		d.log.Info("dictionary was retired: values that use it stay readable, new ones are compressed without it", "dictionary", name(x))
	}
	if found.isForgotten(x.Number()) {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.kept, x.Number())
	}
}

// store stores dictionaries in the server. It ends at the first sign that the server can't be reached,
// instead of waiting for a timeout for each.
func (d *Dicts) store(ctx context.Context, dicts []*codec.Dict) error {
	var errs []error
	for i, x := range dicts {
		err := d.putWithTimeout(ctx, x)
		if err == nil {
			d.verified[x.Number()] = true
			d.markStored(x)
			continue
		}
		if isAnswer(err) {
			errs = append(errs, d.markRefused(x, err))
			continue
		}
		for _, rest := range dicts[i:] {
			d.setReady(false, rest.Number())
		}
		errs = append(errs, d.reportUnreachable(ctx, err))
		break
	}
	return errors.Join(errs...)
}

// putWithTimeout stores one dictionary within d.timeout.
func (d *Dicts) putWithTimeout(ctx context.Context, x *codec.Dict) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	return d.put(ctx, x)
}

func (d *Dicts) all() []*codec.Dict {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*codec.Dict, 0, len(d.kept))
	for _, x := range d.kept {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b *codec.Dict) int { return cmp.Compare(a.Number(), b.Number()) })
	return all
}

// Kick records that the server may have lost dictionaries, since a client's FLUSHALL or FUNCTION command was
// answered. Ready is false for all of them until a check, which Run makes soon, has found them. Kick does not
// block.
func (d *Dicts) Kick() {
	d.invalidate()
	d.wakeUp()
}

func (d *Dicts) wakeUp() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

const (
	debounce   = 200 * time.Millisecond // between a kick and its check, since kicks come in bursts
	firstRetry = time.Second            // after a failed check; doubles up to the period
)

// Run checks at once, periodically and after each Kick and Dialed, until ctx ends.
func (d *Dicts) Run(ctx context.Context) {
	retry := firstRetry
	for {
		wait := d.period
		if err := d.Recheck(ctx); err != nil {
			wait = min(retry, d.period)
			retry = 2 * wait
		} else {
			retry = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-d.checkNow:
		case <-d.wake:
			if !d.settle(ctx) {
				return
			}
		}
	}
}

// settle waits for debounce, so that one check covers a burst of kicks. It reports false if ctx has ended.
func (d *Dicts) settle(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(debounce):
	}
	select {
	case <-d.wake: // covered by the next check
	default:
	}
	return true
}

// The methods below set readiness and log a trouble once, not at every check.

func (d *Dicts) markStored(x *codec.Dict) {
	d.setReady(true, x.Number())
	d.resolve(denied)
	d.resolve(server)
	if d.resolve(name(x)) {
		d.log.Info("dictionary stored in the server", "dictionary", name(x))
	}
}

// markRefused returns nil on a replica, which can only wait for its primary.
func (d *Dicts) markRefused(x *codec.Dict, err error) error {
	d.setReady(false, x.Number())
	switch {
	case errors.Is(err, errReadOnly):
		if d.isNew(name(x), errReadOnly.Error()) {
			d.log.Info("the server is a replica: waiting for the dictionary from its primary", "dictionary", name(x))
		}
		return nil
	case errors.Is(err, ErrDenied):
		if d.isNew(denied, "") {
			d.log.Warn("can't store dictionaries, so values are compressed without them; grant the gateway's user +function|list and +function|load", "error", err)
		}
	case d.isNew(name(x), err.Error()):
		d.log.Warn("can't store dictionary, so values are compressed without it", "dictionary", name(x), "error", err)
	}
	return fmt.Errorf("store dictionary %s: %w", name(x), err)
}

func (d *Dicts) reportUnreachable(ctx context.Context, err error) error {
	if ctx.Err() == nil && d.isNew(server, "") {
		d.log.Warn("can't check dictionaries, so values are compressed without them", "error", err)
	}
	return fmt.Errorf("store dictionaries: %w", err)
}

func name(x *codec.Dict) string { return fmt.Sprintf("%08x", x.Number()) }
