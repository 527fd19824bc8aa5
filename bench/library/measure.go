package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

// measureAll runs all ways in turn, so that a busy minute of the machine affects all alike.
func (o *options) measureAll(d *data) ([]row, error) {
	lanes, err := o.startLanes(d, o.ways, d.measure)
	defer stopAll(lanes)
	if err != nil {
		return nil, err
	}
	for n := range o.rounds {
		for i := range lanes {
			l := lanes[(i+n)%len(lanes)]
			if err := l.turn(o.turn); err != nil {
				return nil, fmt.Errorf("%s: %w", l.name, err)
			}
		}
		if (n+1)%10 == 0 {
			fmt.Fprintf(os.Stderr, "%s: round %d of %d\n", d.Name, n+1, o.rounds)
		}
	}
	return rowsOf(d, lanes)
}

// rowsOf computes the rows of all lanes concurrently, since nothing is timed any more.
func rowsOf(d *data, lanes []*lane) ([]row, error) {
	rows, errs := make([]row, len(lanes)), make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, l := range lanes {
		wg.Go(func() {
			if rows[i], errs[i] = l.row(d, lanes); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", l.name, errs[i])
			}
		})
	}
	wg.Wait()
	for i, l := range lanes {
		if l.sealed {
			rows[i].Once = rows[i].Stored.Rest - rows[0].Stored.Rest
		}
	}
	return rows, errors.Join(errs...)
}

// row returns a lane's costs and sizes.
func (l *lane) row(d *data, lanes []*lane) (r row, err error) {
	base := lanes[slices.IndexFunc(lanes, func(b *lane) bool { return b.name == l.base })]
	r = row{Data: d.Name, Way: l.name}
	r.Set = costsOf(l.turns, base.turns, func(t *turn) cost { return t.set })
	r.Get = costsOf(l.turns, base.turns, func(t *turn) cost { return t.get })
	if r.WireSet, r.WireGet, err = l.wire(); err != nil {
		return r, err
	}
	r.Stored, err = l.weigh(d.Dictionary.Number)
	return r, err
}

// costsOf computes medians, and compares each turn with that of the base in the same round.
func costsOf(turns, base []turn, of func(*turn) cost) (c costs) {
	var client, gateway, server, sum, more []float64
	for i := range turns {
		t := of(&turns[i])
		client, gateway, server = append(client, t.client), append(gateway, t.gateway), append(server, t.server)
		sum, more = append(sum, t.sum()), append(more, t.sum()-of(&base[i]).sum())
	}
	return costs{rig.Median(client), rig.Median(gateway), rig.Median(server), rig.Median(sum), rig.EstimateOf(more)}
}

// timed is the number of GETs of a way in a row.
const timed = 50

// measureLatency times GETs of values of about 10 KB.
func (o *options) measureLatency(d *data) (*latency, error) {
	var of []way
	for _, w := range o.ways {
		if !w.python {
			of = append(of, w)
		}
	}
	lanes, err := o.startLanes(d, of, d.large)
	defer stopAll(lanes)
	if err != nil {
		return nil, err
	}
	took := make([][]time.Duration, len(lanes))
	watch := rig.StartWatch()
	for n := range (o.timing + timed - 1) / timed {
		for i := range lanes {
			at := (i + n) % len(lanes)
			var said struct{ Ns []time.Duration }
			if err := lanes[at].client.Ask(&said, "time", timed); err != nil {
				return nil, fmt.Errorf("%s: %w", lanes[at].name, err)
			}
			took[at] = append(took[at], said.Ns...)
		}
	}
	return latencyOf(lanes, took, watch.End()), nil
}

func latencyOf(lanes []*lane, took [][]time.Duration, crowd rig.Crowd) *latency {
	r := &latency{Crowd: crowd, Records: len(lanes[0].values)}
	for _, v := range lanes[0].values {
		r.Bytes += len(v)
	}
	for i, l := range lanes {
		slices.Sort(took[i])
		at := func(share float64) float64 {
			return float64(took[i][int(share*float64(len(took[i])-1))]) / float64(time.Microsecond)
		}
		r.Ways = append(r.Ways, latencyWay{l.name, len(took[i]), at(0.5), at(0.99)})
	}
	return r
}
