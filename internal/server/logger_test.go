package server

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
)

func TestDurationsInJSONAreText(t *testing.T) {
	var out strings.Builder
	log := newLogger(config.Log{Level: "info", Format: "json"}, new(slog.LevelVar), &out)
	log.Info("drained", "after", 1500*time.Millisecond, slog.Group("client", "waited", time.Minute))
	for _, want := range []string{`"after":"1.5s"`, `"waited":"1m0s"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in %s", want, out.String())
		}
	}
}
