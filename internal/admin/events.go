package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	eventInterval = 2 * time.Second
	eventTimeout  = 10 * time.Second // for the client to take one
	maxListeners  = 32
)

// events sends the status to pages that listen, as server-sent events (WHATWG HTML, 9.2).
type events struct {
	status   func(time.Time) Status
	interval time.Duration
	ending   chan struct{} // closed when the server shuts down

	mu        sync.Mutex
	listeners int
	latest    []byte // an event, shared by all who listen; not changed once it is made
	at        time.Time
}

func newEvents(status func(time.Time) Status) *events {
	return &events{status: status, interval: eventInterval, ending: make(chan struct{})}
}

// ServeHTTP sends an event at once, and then one an interval, until the client goes or the server ends.
func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.enter() {
		w.Header().Set("Retry-After", "30")
		http.Error(w, fmt.Sprintf("%d pages listen already: ask /api/status", maxListeners), http.StatusServiceUnavailable)
		return
	}
	defer e.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // nothing more is to come, so that this is no stall
	tick := time.NewTicker(e.interval)
	defer tick.Stop()
	for {
		event, err := e.event(time.Now())
		if err != nil {
			return
		}
		_ = control.SetWriteDeadline(time.Now().Add(eventTimeout))
		if _, err := w.Write(event); err != nil || control.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-e.ending:
			return
		}
	}
}

func (e *events) enter() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listeners == maxListeners {
		return false
	}
	e.listeners++
	return true
}

func (e *events) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listeners--
}

// event is made once for all who listen: the more there are, the older it may be, by half an interval at most.
func (e *events) event(now time.Time) ([]byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.latest != nil && now.Sub(e.at) < e.interval/2 {
		return e.latest, nil
	}
	doc, err := json.Marshal(e.status(now))
	if err != nil {
		return nil, err
	}
	e.latest, e.at = fmt.Appendf(nil, "event: status\ndata: %s\n\n", doc), now
	return e.latest, nil
}

// end has all who listen leave.
func (e *events) end() { close(e.ending) }
