package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// ErrNoAnswer reports that no page answers.
var ErrNoAnswer = errors.New("no admin page answers")

// Printing configures Print.
type Printing struct {
	Every time.Duration
	Count int // number of polls; 0: until the context ends
	JSON  bool
	Width int // of lines; 0: unlimited
}

// Print writes the rates of each interval, as text or as one JSON document per line. The first output takes
// an interval, since rates need two polls.
func Print(ctx context.Context, w io.Writer, pages []Page, o Printing) error {
	watch := NewWatch(pages)
	if err := noAnswerError(watch.poll(ctx, o.Every).list, pages); err != nil {
		return err
	}
	clock := time.NewTicker(o.Every)
	defer clock.Stop()
	for n := 0; o.Count == 0 || n < o.Count; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
		}
		p := watch.poll(ctx, o.Every)
		if ctx.Err() != nil {
			return nil
		}
		if err := print(w, p.list, len(pages), o); err != nil {
			return err
		}
	}
	return nil
}

// noAnswerError returns ErrNoAnswer if every page failed, or nil.
func noAnswerError(list []Gateway, pages []Page) error {
	var all []error
	for _, g := range list {
		if g.Name != "" {
			return nil
		}
		all = append(all, fmt.Errorf("%s: %s", g.Page, g.Trouble))
	}
	if len(all) < len(pages) {
		return nil // a page without gateways answers
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, errors.Join(all...))
}

func print(w io.Writer, list []Gateway, pages int, o Printing) error {
	if o.JSON {
		return json.NewEncoder(w).Encode(map[string]any{"time": time.Now().UTC(), "interval_seconds": o.Every.Seconds(), "total": Sum(list), "gateways": list})
	}
	s := screen{at: time.Now(), every: o.Every, pages: pages, width: o.Width}
	s.arrange(list)
	s.selected = -1
	_, err := fmt.Fprintln(w, s.report())
	return err
}
