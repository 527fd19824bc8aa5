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
	last sync.Map // last trouble logged, by subject
}

// isNew records a trouble and reports whether it differs from the last one of its subject.
func (t *onceLogger) isNew(about, trouble string) bool {
	last, _ := t.last.Swap(about, trouble)
	return last != trouble
}

// resolve forgets a trouble and reports whether there was one.
func (t *onceLogger) resolve(about string) bool {
	_, was := t.last.LoadAndDelete(about)
	return was
}
