package report

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Prometheus has the values of counters at certain times. They are queried unchanged, at the ends of steps,
// and growth is the difference of two of them. increase() would extrapolate to the edges of its range, and
// omit the value of a counter when it was first seen, which is more than one per cent if a step has few
// samples or a rule is seldom used. If process_start_time_seconds shows that a process was started within a
// step, the samples of that step are queried one by one: the counts up to the last scrape of one process and
// since the start of the next are added up. What a process counts after its last scrape is lost.

const (
	startMetric = "process_start_time_seconds"
	infoMetric  = "cinch_gateway_info"
)

// counters maps the queried metrics to the destinations of their growth.
var counters = map[string]func(c *Counted, labels map[string]string, readsSave bool) [][]float64{
	"cinch_value_raw_bytes_total": func(c *Counted, l map[string]string, _ bool) [][]float64 {
		return [][]float64{c.row(l["gateway"], l["rule"]).raw}
	},
	"cinch_value_stored_bytes_total": func(c *Counted, l map[string]string, _ bool) [][]float64 {
		return [][]float64{c.row(l["gateway"], l["rule"]).stored}
	},
	"cinch_value_left_bytes_total": func(c *Counted, l map[string]string, _ bool) [][]float64 {
		row := c.row(l["gateway"], l["rule"])
		return [][]float64{row.raw, row.stored}
	},
	"cinch_values_sealed_total": func(c *Counted, l map[string]string, _ bool) [][]float64 {
		return [][]float64{c.row(l["gateway"], l["rule"]).sealed}
	},
	"cinch_seal_cpu_seconds_total": func(c *Counted, l map[string]string, _ bool) [][]float64 {
		return [][]float64{c.row(l["gateway"], l["rule"]).cpu}
	},
	"cinch_open_cpu_seconds_total": func(c *Counted, l map[string]string, _ bool) [][]float64 {
		return [][]float64{c.row(l["gateway"], reads).cpu}
	},
	"cinch_opened_raw_bytes_total": func(c *Counted, l map[string]string, readsSave bool) [][]float64 {
		if !readsSave {
			return nil
		}
		return [][]float64{c.row(l["gateway"], reads).raw}
	},
	"cinch_opened_stored_bytes_total": func(c *Counted, l map[string]string, readsSave bool) [][]float64 {
		if !readsSave {
			return nil
		}
		return [][]float64{c.row(l["gateway"], reads).stored}
	},
	"cinch_dictionary_training_cpu_seconds_total": func(c *Counted, _ map[string]string, _ bool) [][]float64 {
		return [][]float64{c.training}
	},
	"cinch_received_bytes_total": onWire,
	"cinch_sent_bytes_total":     onWire,
}

func onWire(c *Counted, l map[string]string, _ bool) [][]float64 {
	if l["side"] == "client" {
		return [][]float64{c.wire(l["gateway"]).in}
	}
	return [][]float64{c.wire(l["gateway"]).out}
}

// line is a series at the ends of steps: at From, then after each step. NaN means no sample.
type line struct {
	labels map[string]string
	values []float64
}

// asked holds the answers of Prometheus.
type asked struct {
	*Counted
	from      *Prometheus
	lines     map[string]*line // by all labels
	starts    map[string]*line // of processes, by target
	protocols map[string]string
}

// CollectPrometheus queries a Prometheus. Instances are added up.
func CollectPrometheus(ctx context.Context, p *Prometheus, w Window) (*Counted, error) {
	a := &asked{Counted: NewCounted(w), from: p, lines: map[string]*line{}, starts: map[string]*line{}, protocols: map[string]string{}}
	for _, metric := range append(slices.Sorted(maps.Keys(counters)), startMetric, infoMetric) {
		list, err := p.series(ctx, metric, w)
		if err != nil {
			return nil, err
		}
		a.hold(metric, list)
	}
	if len(a.lines) == 0 {
		return nil, fmt.Errorf("%w: %s has no metric of Cinch", ErrNothing, p.Name())
	}
	if err := a.count(ctx); err != nil {
		return nil, err
	}
	return a.Counted, nil
}

func (a *asked) hold(metric string, list []found) {
	for _, f := range list {
		f.Metric["__name__"] = metric
		into, key := a.lines, target(f.Metric).matchers()
		switch metric {
		case infoMetric:
			a.protocols[f.Metric["gateway"]] = f.Metric["protocol"]
			continue
		case startMetric:
			into, key = a.starts, targetOf(f.Metric).matchers()
		}
		l := into[key]
		if l == nil {
			l = &line{f.Metric, make([]float64, a.Window.steps()+1)}
			for i := range l.values {
				l.values[i] = math.NaN()
			}
			into[key] = l
		}
		for _, s := range f.Values {
			since := time.Duration((s.at - float64(a.Window.From.UnixMilli())/1000) * float64(time.Second))
			if k := int((since + a.Window.Step - time.Millisecond) / a.Window.Step); k >= 0 && k < len(l.values) {
				l.values[k] = s.value
			}
		}
	}
}

// seen describes a target: the start times of its processes, and the first step with samples.
type seen struct {
	target target
	starts []float64
	first  int
	lines  map[string]*line // its series
}

func (a *asked) targets() map[string]*seen {
	all := map[string]*seen{}
	for key, l := range a.lines {
		of := targetOf(l.labels)
		t := all[of.matchers()]
		if t == nil {
			t = &seen{target: of, first: len(l.values), lines: map[string]*line{}}
			if s := a.starts[of.matchers()]; s != nil {
				t.starts = s.values
			}
			all[of.matchers()] = t
		}
		t.lines[key] = l
		for _, values := range [][]float64{l.values, t.starts} {
			if first := slices.IndexFunc(values, isNumber); first >= 0 {
				t.first = min(t.first, first)
			}
		}
	}
	return all
}

func isNumber(v float64) bool { return !math.IsNaN(v) }

// count adds up the growth of all counters.
func (a *asked) count(ctx context.Context) error {
	targets, first := a.targets(), a.Window.steps()
	for _, t := range targets {
		first = min(first, t.first)
		if err := a.countTarget(ctx, t); err != nil {
			return err
		}
	}
	oldest, instances := a.Window.at(first), "1 instance"
	if len(targets) != 1 {
		instances = fmt.Sprintf("%d instances", len(targets))
	}
	a.Sources = []Source{{Name: a.from.Name() + ", " + instances, Oldest: &oldest}}
	return nil
}

func (a *asked) countTarget(ctx context.Context, t *seen) error {
	base := map[string]float64{} // by series: its previous value
	before := -1.0               // start of the process last seen
	for k := t.first; k <= a.Window.steps(); k++ {
		start := t.start(k)
		closer := k > 0 && (k == t.first || start > 0 && before > 0 && start != before)
		if start > 0 {
			before = start
		}
		if closer {
			if err := a.countClosely(ctx, t, k, base); err != nil {
				return err
			}
			continue
		}
		for key, l := range t.lines {
			v := l.values[k]
			if !isNumber(v) {
				continue
			}
			if k > 0 {
				a.grow(l, k, growth(base[key], v))
			}
			base[key] = v
		}
	}
	return nil
}

// start returns the start time of the target's process at the end of a step; 0: unknown.
func (t *seen) start(k int) float64 {
	if t.starts == nil || !isNumber(t.starts[k]) {
		return 0
	}
	return t.starts[k]
}

// growth returns the growth of a counter. A counter that has decreased, or is new, has started at 0.
func growth(base, v float64) float64 {
	if v < base {
		return v
	}
	return v - base
}

// startError limits, in seconds, how far a reported start may lie before the real one: Linux reports the boot
// time, from which the start is computed, in whole seconds, and NTP adjusts the clock.
const startError = 10

// countClosely counts a step in which the process was started, or the target was first seen.
func (a *asked) countClosely(ctx context.Context, t *seen, k int, base map[string]float64) error {
	began := a.Window.at(k - 1)
	list, err := a.from.raw(ctx, append(slices.Sorted(maps.Keys(counters)), startMetric), t.target, began, a.Window.at(k))
	if err != nil {
		return err
	}
	starts := map[float64]float64{} // by the time of a scrape: start of the process scraped
	for _, f := range list {
		if f.Metric["__name__"] == startMetric {
			for _, s := range f.Values {
				starts[s.at] = s.value
			}
		}
	}
	// A process that is older than the step but was not seen before has counted outside the period.
	counted := k == t.first && t.start(k) < float64(began.Add(-lookback(a.Window)).Unix())
	for _, f := range list {
		key := target(f.Metric).matchers()
		l := t.lines[key]
		if l == nil {
			continue
		}
		if counted && len(f.Values) > 0 {
			base[key] = f.Values[0].value
		}
		scraped := t.start(k - 1) // start of the process of the previous sample
		previous := float64(began.Add(-lookback(a.Window)).Unix())
		for _, s := range f.Values {
			by := growth(base[key], s.value)
			if start := starts[s.at]; start != 0 && start != scraped {
				// Usually this is another process, which may have a higher count than the previous one. But a
				// start long before the previous sample means the same process: Linux computes the start from
				// the clock, which was set meanwhile.
				if scraped != 0 && start > previous-startError {
					by = s.value
				}
				scraped = start
			}
			a.grow(l, k, by)
			base[key], previous = s.value, s.at
		}
	}
	return nil
}

// grow adds the growth of a counter in the step before k.
func (a *asked) grow(l *line, k int, by float64) {
	readsSave := gateway.StoresValues(a.protocols[l.labels["gateway"]])
	for _, to := range counters[l.labels["__name__"]](a.Counted, l.labels, readsSave) {
		to[k-1] += by
	}
}
