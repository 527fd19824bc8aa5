package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Link is the network between application and store.
type Link struct {
	Name          string
	BitsPerSecond float64
	RTT           time.Duration
}

// ErrLink reports text that is not a link.
var ErrLink = errors.New("invalid link")

var bitUnits = []struct {
	name string
	bits float64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}}

// ParseLink reads "100mbit,1.5ms": bandwidth and round-trip time.
func ParseLink(text string) (Link, error) {
	l := Link{Name: text}
	bandwidth, rtt, _ := strings.Cut(strings.ToLower(text), ",")
	for _, u := range bitUnits {
		if number, ok := strings.CutSuffix(strings.TrimSpace(bandwidth), u.name); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
			if err != nil || !(n > 0 && n < 1e9) {
				break
			}
			l.BitsPerSecond = n * u.bits
		}
	}
	if l.BitsPerSecond == 0 {
		return l, fmt.Errorf("%w: bandwidth %q", ErrLink, bandwidth)
	}
	if rtt == "" {
		return l, nil
	}
	var err error
	if l.RTT, err = time.ParseDuration(strings.TrimSpace(rtt)); err != nil || l.RTT < 0 {
		return l, fmt.Errorf("%w: round-trip time %q", ErrLink, rtt)
	}
	return l, nil
}

// seconds returns the time to send bytes and receive the acknowledgement. It ignores TCP's slow start, which
// makes large values on new connections gain more.
func (l Link) seconds(bytes float64) float64 {
	return l.RTT.Seconds() + bytes*8/l.BitsPerSecond
}
