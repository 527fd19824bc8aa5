package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/pack"
	"github.com/cinch-layer/cinch/internal/store/open"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/internal/ui"
)

// isTarantoolURL recognizes what 'cinch pack' and the like can walk over beside Redis.
func isTarantoolURL(s string) bool {
	return strings.HasPrefix(s, "tarantool://") || strings.HasPrefix(s, "tarantools://")
}

// connectTarantool opens the store. Values are looked for in the fields that rules cover, or
// in all of them where it is not about sealing.
func (w *where) connectTarantool(ctx context.Context) error {
	conn, err := storetarantool.Connect(ctx, open.TarantoolOptions(w.upstream))
	if err != nil {
		return tarantoolFailure(w.name, err)
	}
	o := storetarantool.OpenOptions{Name: w.upstream.Address, ReadOnly: w.readOnly}
	if w.sealing {
		o.Wanted, o.Trusts = open.SealsField(w.policy), open.TrustsField(w.policy)
	}
	s, err := storetarantool.Open(ctx, conn, o)
	if err != nil {
		conn.Close()
		return tarantoolFailure(w.name, err)
	}
	w.tuples = &open.Tuples{Store: s, Conn: conn}
	if w.group, err = newTarantoolGroup(conn, w.upstream, &w.gateway, &w.local); err != nil {
		conn.Close()
		return err
	}
	d := &tupleDicts{Group: w.group}
	w.dicts = d
	for _, f := range w.files {
		if err := w.local.Add(f); err != nil {
			w.close()
			return err
		}
	}
	if w.everywhere {
		if err := w.openShards(ctx); err != nil {
			w.close()
			return err
		}
	}
	if !w.readOnly {
		ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
		go d.Run(ctx)
	}
	return w.checkFields()
}

// checkFields refuses a rule that names a field which must not be sealed, and a walk over nothing.
func (w *where) checkFields() error {
	if !w.sealing && len(w.tuples.Spaces()) == 0 {
		w.close()
		return ui.WithHint(fmt.Errorf("%s: there is no space that the user may read", w.name), "grant read on the spaces to the user in the URL")
	}
	if !w.sealing {
		return nil
	}
	for _, s := range w.tuples.Schema().Spaces() {
		for _, f := range s.Fields {
			touched := s.Touched(f.Number, open.TrustsField(w.policy)(s, f))
			for _, r := range s.Rules(w.policy, f) {
				if touched != "" && r.Key == s.Name && r.Field == f.Name && !r.Raw() {
					w.close()
					return withCode(exitConfig, fmt.Errorf("rule %s names field %s of space %s: %s", r.Name, f.Name, s.Name, touched))
				}
			}
		}
	}
	if len(w.tuples.Spaces()) == 0 {
		w.close()
		return ui.WithHint(fmt.Errorf("%s: no rule covers a field that may be sealed", w.name),
			"name one with --rule 'space=docs,field=body,setting=zstd-3'; the user must have the right to read the space")
	}
	return nil
}

// tupleDicts are the dictionaries in a Tarantool server.
type tupleDicts struct{ *storetarantool.Group }

// Dictionary implements cinch.Dictionaries. That nobody may be asked is told from a
// dictionary that is missing.
func (d *tupleDicts) Dictionary(number uint32) (*codec.Dict, error) {
	x, err := d.Group.Dictionary(number)
	if err != nil && !errors.Is(err, cinch.ErrDictMissing) && !errors.Is(err, storetarantool.ErrForeign) {
		err = fmt.Errorf("%w: %w", pack.ErrNotAsked, err)
	}
	return x, err
}

func (d *tupleDicts) publish(ctx context.Context, numbers []uint32) error {
	for _, n := range numbers {
		x, err := d.Dictionary(n)
		if err == nil {
			err = d.Publish(ctx, x)
		}
		if err != nil {
			return fmt.Errorf("dictionary %08x: %w", n, err)
		}
	}
	return nil
}

func (d *tupleDicts) ready(number uint32) bool {
	if d.Ready(number) {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), open.AnswerTimeout)
	defer cancel()
	return d.Recheck(ctx) == nil && d.Ready(number)
}

func (d *tupleDicts) managed(ctx context.Context, fingerprint string, dryRun bool) uint32 {
	text, _, err := d.Record(ctx, fingerprint)
	if err != nil || text == "" {
		return 0
	}
	record, err := autodict.ParseRecord(text)
	if err != nil || record.Current == nil {
		return 0
	}
	number := uint32(record.Current.Dict)
	if _, err := d.Dictionary(number); err != nil || !dryRun && !d.ready(number) {
		return 0
	}
	return number
}

var _ storeDicts = (*tupleDicts)(nil)

// storeDicts are the dictionaries of a store that is walked.
type storeDicts interface {
	autodict.Store
	// publish puts dictionaries where values are about to name them.
	publish(ctx context.Context, numbers []uint32) error
	// ready reports that values may name one. It may ask the server.
	ready(number uint32) bool
	// managed is the one in force for a rule with dictionary: auto, by its fingerprint, 0 for none.
	managed(ctx context.Context, fingerprint string, dryRun bool) uint32
}

var _ storeDicts = (*nodeDicts)(nil)
