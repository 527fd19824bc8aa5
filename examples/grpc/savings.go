package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// dollarsPerGB is the price between zones: $0.01 a GB for leaving one zone and $0.01 a GB for entering the
// other, in both directions (AWS EC2, "data transfer within the same region").
const dollarsPerGB = 0.01 + 0.01

// samplesPerSecond is the priced load: 15 million active series, each scraped every 15 seconds.
const (
	samplesPerSecond = 1_000_000
	month            = 30 * 24 * time.Hour
)

// saving is an outcome with its price.
type saving struct {
	outcome
	BytesPerSample  float64 `json:"cross_zone_bytes_per_sample"`
	DollarsPerMonth float64 `json:"dollars_per_month"`
}

func newSaving(o outcome) saving {
	perSample := float64(o.CrossZone) / float64(o.Sent.Series) // each series has one sample
	gb := perSample * samplesPerSecond * month.Seconds() / 1e9
	return saving{o, perSample, gb * dollarsPerGB}
}

func (r *runner) showSavings(o options) error {
	var all []saving
	for _, v := range variants {
		out, err := r.run(v, payloadKind{o.series, o.requests}, 0, "-pushes", fmt.Sprint(o.requests))
		if err != nil {
			return err
		}
		all = append(all, newSaving(out))
		if !o.json {
			fmt.Fprintf(os.Stderr, "%-18s done %s\n", v.name, out.Sent.Error)
		}
	}
	if o.json {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	fmt.Print(savingsText(all))
	return nil
}

func savingsText(all []saving) string {
	var b strings.Builder
	first := all[0]
	fmt.Fprintf(&b, "\n%d requests of %d series each, %.1f MB, sent to %d receivers in %d zones.\n",
		first.Sent.Pushes, first.Sent.Series/first.Sent.Pushes, mb(first.Sent.Bytes), len(zones), len(zones))
	fmt.Fprintf(&b, "The distributor is in zone a, so two of three copies cross zones.\n\n")
	fmt.Fprintf(&b, "%-18s %14s %7s %13s %12s %8s %11s\n", "", "cross-zone MB", "ratio", "bytes/sample", "$ a month", "saved", "calls failed")
	for _, s := range all {
		fmt.Fprintf(&b, "%-18s %14.2f %7.2f %13.2f %12.2f %7.1f%% %11d\n", s.Variant, mb(s.CrossZone),
			2*float64(s.Sent.Bytes)/float64(s.CrossZone), s.BytesPerSample, s.DollarsPerMonth,
			100*(1-s.DollarsPerMonth/first.DollarsPerMonth), s.Sent.Failed)
	}
	fmt.Fprintf(&b, "\n$ a month: bytes/sample x %d samples/s x %.0f s / 10^9 x ($0.01 out + $0.01 in) a GB.\n", samplesPerSecond, month.Seconds())
	b.WriteString("Bytes are those of the TCP streams to zones b and c, both directions, with answers and HTTP/2.\n")
	return b.String()
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }
