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
	eventTimeout  = 10 * time.Second // for the client to receive one
	maxListeners  = 32
)

// events sends the status to connected pages, as server-sent events (WHATWG HTML, 9.2).
type events struct {
	status   func(time.Time) Status
	interval time.Duration
	closed   chan struct{} // closed when the server shuts down

	mu        sync.Mutex
	listeners int
	latest    []byte // an event, shared by all clients; immutable once made
	at        time.Time
}

func newEvents(status func(time.Time) Status) *events {
	return &events{status: status, interval: eventInterval, closed: make(chan struct{})}
}

// ServeHTTP sends an event at once, and then one per interval, until the client disconnects or the server
// ends.
func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.addListener() {
		w.Header().Set("Retry-After", "30")
		http.Error(w, fmt.Sprintf("%d pages get events already: poll /api/status", maxListeners), http.StatusServiceUnavailable)
		return
	}
	defer e.removeListener()
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the client sends nothing more, so that silence is no stall
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
		case <-e.closed:
			return
		}
	}
}

func (e *events) addListener() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listeners == maxListeners {
		return false
	}
	e.listeners++
	return true
}

func (e *events) removeListener() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listeners--
}

// event returns an event shared by all clients. It may be up to half an interval old.
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

// close disconnects all clients.
func (e *events) close() { close(e.closed) }
