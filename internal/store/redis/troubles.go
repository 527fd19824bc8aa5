package redis

import (
	"log/slog"
	"sync"
)

// What troubles keep apart, beside the single dictionaries.
const (
	denied   = "permission"
	server   = "server"
	eviction = "eviction policy"
)

// troubles have each trouble in the log once, not at every check.
type troubles struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[string]string // logged, by what it was about
}

func newTroubles(log *slog.Logger) *troubles {
	return &troubles{log: log, last: make(map[string]string)}
}

// isNews remembers a trouble and reports whether it is another than the last.
func (t *troubles) isNews(about, trouble string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.last[about]; ok && last == trouble {
		return false
	}
	t.last[about] = trouble
	return true
}

// settled forgets a trouble and reports whether there was one.
func (t *troubles) settled(about string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, was := t.last[about]
	delete(t.last, about)
	return was
}
