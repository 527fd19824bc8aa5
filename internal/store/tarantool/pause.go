package tarantool

import (
	"context"
	"fmt"
	"time"
)

// pauseRecord exists while packing is paused. It holds the time of the start.
const pauseRecord = leasesRecord + ":paused"

// Pause implements store.Pause.
type Pause struct{ records records }

// Pause returns the switch that stops packing in the server.
func (d *Dicts) Pause() *Pause { return &Pause{d.records} }

// Set implements store.Pause.
func (p *Pause) Set(ctx context.Context, at time.Time) (since time.Time, err error) {
	at = at.UTC().Truncate(time.Second)
	err = p.change(ctx, func(now string) (string, bool) {
		if since = at; now != "" {
			since = pausedSince(now)
		}
		return at.Format(time.RFC3339), now == ""
	})
	return since, err
}

// Clear implements store.Pause.
func (p *Pause) Clear(ctx context.Context) error {
	return p.change(ctx, func(now string) (string, bool) { return "", now != "" })
}

// Get implements store.Pause.
func (p *Pause) Get(ctx context.Context) (since time.Time, paused bool, err error) {
	text, _, err := p.records.Record(ctx, pauseRecord)
	return pausedSince(text), text != "", err
}

// pausedSince returns zero if the text is not a time: packing is paused even so.
func pausedSince(text string) time.Time {
	since, _ := time.Parse(time.RFC3339, text)
	return since
}

// change calls the function to with the record's text, and replaces the text by the result unless to returns false.
func (p *Pause) change(ctx context.Context, to func(now string) (string, bool)) error {
	for range leaseTries {
		now, version, err := p.records.Record(ctx, pauseRecord)
		if err != nil {
			return err
		}
		next, do := to(now)
		if !do {
			return nil
		}
		if written, err := p.records.ReplaceRecord(ctx, pauseRecord, version, next); err != nil || written != 0 {
			return err
		}
	}
	return fmt.Errorf("%w: %s", errContended, pauseRecord)
}
