package plan

import (
	"cmp"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
)

// A server's counters since its start show its usual load only after some time. A server that was just loaded
// has written each value once and read none, which says nothing about its usual load.
const (
	minUptime    = time.Hour
	loadedWrites = 3   // writes per name: up to so many are initial loading, perhaps twice
	loadedReads  = 0.1 // reads per write, likewise

	usualLink = 25e9 // bits per second, if no link was given
)

// doubtRates returns why the counters may not show the server's load, or "" if they may.
func doubtRates(a store.Activity, names int64) string {
	up := time.Duration(a.Uptime * float64(time.Second)).Round(time.Second)
	switch {
	case a.Uptime <= 0:
		return ""
	case a.Writes > 0 && a.Writes <= loadedWrites*float64(max(names, 1)) && a.Reads <= loadedReads*a.Writes:
		return fmt.Sprintf("it has %s names and was written %s times and read %s times since it was started %s ago, which looks like loading",
			Count(float64(names)), Count(a.Writes), Count(a.Reads), up)
	case up < minUptime:
		return fmt.Sprintf("it was started %s ago, too short to tell", up)
	}
	return ""
}

// observe sets the rates to those of a server's counters, unless these are in doubt. names is the number of the
// server's names. If the counters cover more than the plan does, part says so; otherwise it is "".
func (s *SourceInfo) observe(a store.Activity, names int64, part string) {
	if a.Uptime <= 0 && a.Reads+a.Writes > 0 {
		a.Uptime = 1 // servers count whole seconds
	}
	if a.Uptime <= 0 {
		return
	}
	s.Observed = Rates{Reads: a.Reads / a.Uptime, Writes: a.Writes / a.Uptime}
	if s.Doubt = cmp.Or(doubtRates(a, names), part); s.Doubt == "" {
		s.Rates = s.Observed
	}
}

// WeighRates compares the rates with the capacity of the link. Given rates beyond it are used, with a warning.
// Observed ones are not used; the source's Doubt then says why.
func (o *Options) WeighRates(c *Collector) (warning string) {
	if o.Rates != (Rates{}) {
		if s := o.tooMuch(c, o.Rates); s != "" {
			return s + ": check --reads and --writes"
		}
		return ""
	}
	switch s := o.tooMuch(c, o.Source.Rates); {
	case s == "":
	case o.Source.Medium == price.OnWire: // its rates are those of existing messages
		return s + ": set the rate with --reads"
	default:
		o.Source.Doubt, o.Source.Rates = s, Rates{}
	}
	return ""
}

func (o *Options) tooMuch(c *Collector, r Rates) string {
	link, name := usualLink, "a link of 25 Gbit/s"
	for i, l := range o.Links {
		if i == 0 || l.BitsPerSecond > link {
			link, name = l.BitsPerSecond, "the link "+l.Name
		}
	}
	mean := c.mean()
	if bits := max(r.Reads, r.Writes) * mean * 8; bits > link {
		return fmt.Sprintf("%s reads and %s writes a second of %s on average are %s/s, more than %s carries",
			rate(r.Reads), rate(r.Writes), terminal.Size(int64(mean)), terminal.Size(int64(bits/8)), name)
	}
	return ""
}

// mean returns the average length of a value.
func (c *Collector) mean() float64 {
	var bytes, values float64
	for _, f := range c.found() {
		bytes, values = bytes+f.sizes.bytes*f.scale, values+f.sizes.values*f.scale
	}
	return bytes / max(values, 1)
}

// assumedWords describes the assumed rates, and why they are assumed.
func (r *Report) assumedWords() string {
	s := "Rates are not known"
	if r.Doubt != "" {
		s = fmt.Sprintf("%s reads and %s writes a second were counted, but %s", rate(r.Observed.Reads), rate(r.Observed.Writes), r.Doubt)
	}
	return s + ": it is assumed that a value is written once and read ten times a day. Give --reads and --writes."
}
