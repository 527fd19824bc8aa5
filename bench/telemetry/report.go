package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

type report struct {
	codecs
	options
	program string // measures peers' libraries; "": they are skipped
	table   rig.Table
	rows    [][]string
}

func newReport(o options) (*report, error) {
	c, err := newCodecs()
	if err != nil {
		return nil, err
	}
	r := &report{codecs: c, options: o, rows: [][]string{{"payload", "way", "raw_bytes", "bytes", "framing"}}}
	fmt.Fprintf(&r.table, "%s, %d cores, %s.\n\n", rig.Machine(), runtime.NumCPU(), runtime.Version())
	r.table.Row("payload", "way", "bytes", "bytes a unit", "with framing", "beside S2 by message", "CPU there, ms/MB", "back", "both, beside S2")
	r.table.Rule(9)
	return r, nil
}

// times holds the times of several runs.
type times struct{ there, back []time.Duration }

func (t times) median() (there, back time.Duration) {
	slices.Sort(t.there)
	slices.Sort(t.back)
	return t.there[len(t.there)/2], t.back[len(t.back)/2]
}

// measure runs all ways in turn, and takes the median of the times.
func (r *report) measure(ctx context.Context, p payload) error {
	all := slices.Clone(ways)
	all = slices.DeleteFunc(all, func(w way) bool { return w.alone != "s2" && !r.ways.MatchString(w.name) })
	results, took := make([]result, len(all)), make([]times, len(all))
	for range r.rounds {
		for i, w := range all {
			if err := ctx.Err(); err != nil {
				return err
			}
			one, err := r.codecs.run(w, p.messages)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", p.name, w.name, err)
			}
			results[i] = one
			took[i].there, took[i].back = append(took[i].there, one.there), append(took[i].back, one.back)
		}
	}
	r.rowsOf(p, all, results, took)
	if err := r.peersOf(ctx, p, took[0]); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	fmt.Fprintln(os.Stderr, p.name)
	return nil
}

func (r *report) rowsOf(p payload, all []way, results []result, took []times) {
	raw := p.bytes()
	units := float64(p.units)
	r.table.Row(fmt.Sprintf("%s: %d messages, %d %ss", p.name, len(p.messages), p.units, p.unit), "as it is", strconv.Itoa(raw), fmt.Sprintf("%.2f", float64(raw)/units), "", "", "", "", "")
	for _, peer := range p.peers {
		r.table.Row(p.name, peer.name+", published", "", fmt.Sprintf("%.1f", peer.bytes), "", "", "", "", "")
	}
	perMB := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1e9/float64(raw)) }
	thereS2, backS2 := took[0].median()
	for i, w := range all {
		n := results[i]
		there, back := took[i].median()
		r.table.Row(p.name, w.name, strconv.Itoa(n.bytes), fmt.Sprintf("%.2f", float64(n.bytes)/units), fmt.Sprintf("%.2f", float64(n.bytes+n.framing)/units),
			percent(n.bytes+n.framing, results[0].bytes+results[0].framing), perMB(there), perMB(back), fmt.Sprintf("%.1f", float64(there+back)/float64(thereS2+backS2)))
		if p.varies {
			continue
		}
		r.rows = append(r.rows, []string{p.name, w.name, strconv.Itoa(raw), strconv.Itoa(n.bytes), strconv.Itoa(n.framing)})
	}
}
