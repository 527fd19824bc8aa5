package plan

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/store"
)

func TestDoubt(t *testing.T) {
	const names, day = 100_000, 86400
	for _, c := range []struct {
		what  string
		a     store.Activity
		part  string
		doubt string
	}{
		{"no counters", store.Activity{}, "", ""},
		{"no counters of a part", store.Activity{}, "of others", ""},
		{"just loaded", store.Activity{Uptime: 6, Writes: names}, "", "loading"},
		{"just started and loaded", store.Activity{Writes: names}, "", "loading"},
		{"loaded yesterday", store.Activity{Uptime: day, Writes: 2 * names, Reads: 100}, "", "loading"},
		{"started a minute ago", store.Activity{Uptime: 60, Writes: 100, Reads: 1e6}, "", "too short"},
		{"a cache at work", store.Activity{Uptime: day, Writes: 5e6, Reads: 1e9}, "", ""},
		{"a part of a cache", store.Activity{Uptime: day, Writes: 5e6, Reads: 1e9}, "of others", "of others"},
		{"many writes, no reads", store.Activity{Uptime: day, Writes: 50 * names}, "", ""}, // a log: writes are its normal use
		{"idle", store.Activity{Uptime: day, Reads: 10}, "", ""},
	} {
		info := SourceInfo{}
		info.observe(c.a, names, c.part)
		if c.doubt == "" && info.Doubt != "" || !strings.Contains(info.Doubt, c.doubt) {
			t.Errorf("%s: %q", c.what, info.Doubt)
		}
		if used := info.Rates != (Rates{}); used != (c.doubt == "" && c.a.Uptime > 0) {
			t.Errorf("%s: rates %v of %v are used", c.what, info.Rates, info.Observed)
		}
	}
}

// Rates above the link's capacity are not used if they were counted, and cause a warning if they were given.
func TestRatesAboveTheLink(t *testing.T) {
	c := NewCollector(CollectOptions{})
	for range 100 {
		c.Add("menu:*", "string", make([]byte, 50_000), 1)
	}
	slow, _ := ParseLink("100mbit,1ms")
	for _, x := range []struct {
		links           []Link
		given, observed float64
		medium          price.Medium
		warned, doubted bool
	}{
		{nil, 1000, 0, price.InMemory, false, false},
		{nil, 100_000, 0, price.InMemory, true, false}, // 40 Gbit/s
		{[]Link{slow}, 1000, 0, price.InMemory, true, false},
		{[]Link{slow}, 0, 1000, price.InMemory, false, true},
		{[]Link{slow}, 0, 200, price.InMemory, false, false},
		{[]Link{slow}, 0, 1000, price.OnWire, true, false},
	} {
		o := Options{Links: x.links, Rates: Rates{Reads: x.given}, Source: SourceInfo{Rates: Rates{Reads: x.observed}, Medium: x.medium}}
		warning := o.WeighRates(c)
		if (warning != "") != x.warned || (o.Source.Doubt != "") != x.doubted || x.doubted != (x.observed > 0 && o.Source.Rates == Rates{}) {
			t.Errorf("%+v: %q, %+v", x, warning, o.Source)
		}
	}
}
