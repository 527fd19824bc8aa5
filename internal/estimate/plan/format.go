package plan

import (
	"fmt"
	"math"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// shorten removes the middle of a long text: both ends identify a pattern.
func shorten(s string, most int) string {
	s = clip(s, 1<<10)
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	tail := (most - 1) / 2
	return string(r[:most-1-tail]) + "…" + string(r[len(r)-tail:])
}

// Count formats a number of things for people: 950, 12.3k, 1.20M.
func Count(n float64) string {
	switch {
	case n < 9999.5:
		return fmt.Sprintf("%.0f", n)
	case n < 999.5e3:
		return fmt.Sprintf("%.3gk", n/1e3)
	case n < 999.5e6:
		return fmt.Sprintf("%.3gM", n/1e6)
	}
	return fmt.Sprintf("%.3gG", n/1e9)
}

// crossingWords describes the share of the traffic that crosses zones.
func (r *Report) crossingWords() string {
	if r.ZonesAssumed {
		return r.layout.Words("--zones, --cross-zone")
	}
	return r.layout.Words("")
}

func share(part, of int64) string {
	if of <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(of))
}

func saves(now, after int64) string {
	if now <= 0 {
		return ""
	}
	return fmt.Sprintf("%.0f%%", 100*(1-float64(after)/float64(now)))
}

func formatMicros(v float64) string {
	if v < 9.95 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// delta formats a time with its sign.
func delta(v float64) string {
	if math.Abs(v) >= 9995 {
		return fmt.Sprintf("%+.1f ms", v/1000)
	}
	return fmt.Sprintf("%+.0f us", v)
}

func rate(v float64) string {
	switch {
	case v >= 10:
		return Count(v)
	case v > 0 && v < 0.0005:
		return "under 0.001"
	}
	return fmt.Sprintf("%.3g", v)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// words describes the size of the states, as the end of a sentence.
func (m Memory) words() string {
	if m.Compress+m.Open == 0 {
		return ""
	}
	return fmt.Sprintf("; a codec state takes %s of memory to compress and %s to decompress (%s)", terminal.Size(m.Compress), terminal.Size(m.Open), m.From)
}

func faster(micros float64) string {
	if micros < 0 {
		return fmt.Sprintf("%.0f us faster", -micros)
	}
	return fmt.Sprintf("%.0f us slower", micros)
}

func percentOf(part, of float64) string {
	if of <= 0 {
		return "0%"
	}
	return fmt.Sprintf("%.3g%%", 100*part/of)
}
