package testenv

import (
	"log/slog"
	"strings"

	"github.com/cinch-layer/cinch/test/rig/tail"
)

// Log keeps everything that is logged. It may be read at the same time.
type Log struct{ tail.Buffer }

// Logger returns a logger that writes to l from level info on.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, nil))
}

// Count returns how often a text occurs in the log.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }
