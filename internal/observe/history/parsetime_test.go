package history

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-11-01": start, "2026-11-01T00:00": start, "2026-11-01T02:00:00+02:00": start, "1793491200": start,
		"24h": now.Add(-24 * time.Hour), "30d": now.AddDate(0, 0, -30), "0.5d": now.Add(-12 * time.Hour),
	} {
		if got, err := ParseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "yesterday", "-1h", "-5", "99999999999999999", "NaNd", "1e9d", "2026-13-01"} {
		if got, err := ParseTime(text, now); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
