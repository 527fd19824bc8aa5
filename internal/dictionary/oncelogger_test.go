package dictionary

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestTroublesAreLoggedOnce(t *testing.T) {
	var logged bytes.Buffer
	var told onceLogger
	log := slog.New(slog.NewTextHandler(&logged, nil))
	for _, text := range []string{"one", "one", "two", "two", "one"} {
		told.warn(log, text, errors.New("why"))
	}
	told.resolve("one")
	for _, text := range []string{"one", "two"} {
		told.warn(log, text, errors.New("why"))
	}
	if n := strings.Count(logged.String(), "why"); n != 3 {
		t.Errorf("logged %d times: %s", n, logged.String())
	}
}
