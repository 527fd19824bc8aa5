package redis

import (
	"log/slog"
	"sync"
)

// Subjects of troubles that concern no single dictionary.
const (
	denied   = "permission"
	server   = "server"
	eviction = "eviction policy"
)

// onceLogger logs each trouble once, not at every check.
type onceLogger struct {
	log  *slog.Logger
	mu   sync.Mutex
	last map[string]string // last trouble logged, by subject
}

func newOnceLogger(log *slog.Logger) *onceLogger {
	return &onceLogger{log: log, last: make(map[string]string)}
}

// isNew records a trouble and reports whether it differs from the last one of its subject.
func (t *onceLogger) isNew(about, trouble string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, ok := t.last[about]; ok && last == trouble {
		return false
	}
	t.last[about] = trouble
	return true
}

// resolve forgets a trouble and reports whether there was one.
func (t *onceLogger) resolve(about string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, was := t.last[about]
	delete(t.last, about)
	return was
}
