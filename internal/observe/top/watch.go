package top

import (
	"context"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/observe/admin"
)

// A Page is the source of a status.
type Page interface {
	Name() string
	Status(ctx context.Context) (admin.Status, error)
}

// Watch polls several pages.
type Watch struct {
	pages []Page
	last  []Snapshot
	ever  bool
}

// NewWatch returns a Watch of pages.
func NewWatch(pages []Page) *Watch { return &Watch{pages: pages, last: make([]Snapshot, len(pages))} }

// Next polls all pages and returns the changes since the previous call. The first call returns averages since
// each process began.
func (w *Watch) Next(ctx context.Context) (list []Gateway, first bool) {
	looks := make([]Snapshot, len(w.pages))
	var all sync.WaitGroup
	for i, p := range w.pages {
		all.Go(func() {
			looks[i] = Snapshot{Page: p.Name(), At: time.Now()}
			if s, err := p.Status(ctx); err != nil {
				looks[i].Err = err
			} else {
				looks[i].Status = &s
			}
		})
	}
	all.Wait()
	for i := range looks {
		list = append(list, Gateways(w.last[i], looks[i])...)
		if looks[i].Status != nil { // after a missed poll a page is compared with its previous status
			w.last[i] = looks[i]
		}
	}
	first, w.ever = !w.ever, true
	return list, first
}

// poll is the state of all pages at a time.
type poll struct {
	list  []Gateway
	first bool
	at    time.Time
}

// poll is Next with a timeout, so that an unreachable page does not delay the others for long.
func (w *Watch) poll(ctx context.Context, every time.Duration) poll {
	ctx, cancel := context.WithTimeout(ctx, max(5*time.Second, every))
	defer cancel()
	list, first := w.Next(ctx)
	return poll{list, first, time.Now()}
}
