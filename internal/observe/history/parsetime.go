package history

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ParseTime parses a time: RFC 3339, a date (its beginning, UTC), seconds since 1970, or an age before now.
func ParseTime(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 && seconds < math.MaxInt32*1000 {
		return time.Unix(seconds, 0), nil
	}
	if age, err := ParseAge(text); err == nil && age >= 0 {
		return now.Add(-age), nil
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time: write 2026-11-01, 2026-11-01T12:00:00Z, or an age as 24h or 30d", text)
}

// ParseAge parses a duration, which may be in days.
func ParseAge(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || !(n >= 0 && n < 36500) {
			return 0, fmt.Errorf("%.40q is not a number of days", text)
		}
		return time.Duration(n * 24 * float64(time.Hour)), nil
	}
	return time.ParseDuration(text)
}
