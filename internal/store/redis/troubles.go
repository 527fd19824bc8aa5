package redis

import (
	"log/slog"
	"sync"
)

// Subjects of troubles, besides single dictionaries.
const (
	denied   = "permission"
	server   = "server"
	eviction = "eviction policy"
)

// troubles logs each trouble once, not at every check.
type troubles struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[string]string // last trouble logged, by subject
}

func newTroubles(log *slog.Logger) *troubles {
	return &troubles{log: log, last: make(map[string]string)}
}

// isNews records a trouble and reports whether it differs from the last one of its subject.
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
