package testenv

import (
	"log/slog"
	"strings"

	"github.com/cinch-layer/cinch/bench/rig/tail"
)

// Log keeps all that is logged, and may be read meanwhile.
type Log struct{ tail.Buffer }

// Logger writes into it, from level info on.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, nil))
}

// Count says how often a text is in it.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }
