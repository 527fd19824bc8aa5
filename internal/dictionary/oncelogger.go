package dictionary

import (
	"log/slog"
	"sync"
)

// Troubles with a store.
const (
	troubleRead   = "dictionaries can't be read from the server, so values are compressed without them"
	troubleWrite  = "dictionaries can't be stored in the server, so values are compressed without new ones"
	troubleRecord = "the record of a rule's dictionaries can't be read"
	troubleStore  = "a new dictionary can't be stored, so values are compressed without it"
	troubleWeigh  = "the server reports no memory use, so dictionaries are weighed against the traffic"
	troubleFetch  = "an announced dictionary can't be fetched"
)

// onceLogger logs each trouble once. It holds those that were logged and have not been resolved since. The zero value
// is ready for use from any goroutine.
type onceLogger struct {
	logged sync.Map // by text
}

// warn logs a trouble as a warning, unless it was logged and has not been resolved since.
func (t *onceLogger) warn(log *slog.Logger, text string, err error, more ...any) {
	if t.isNew(text) {
		log.Warn(text, append([]any{"err", err}, more...)...)
	}
}

// info is warn at level info, for troubles that need no action.
func (t *onceLogger) info(log *slog.Logger, text string, err error) {
	if t.isNew(text) {
		log.Info(text, "err", err)
	}
}

func (t *onceLogger) isNew(text string) bool {
	_, wasLogged := t.logged.LoadOrStore(text, true)
	return !wasLogged
}

// resolve marks a trouble as over.
func (t *onceLogger) resolve(text string) { t.logged.Delete(text) }
