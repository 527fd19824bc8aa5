package main

import (
	"errors"
	"fmt"
	"sync"

	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/cinch-layer/cinch/examples/otel/shop"
)

// receiver checks and counts everything that one sender sends in its rounds.
type receiver struct {
	rounds int64

	mu                   sync.Mutex
	requests             int
	spans, logs, points  int
	seen                 map[int64]int // number of times that each span was seen
	nextLog              int64
	counters, histograms map[int64]*progress // by series
	trouble              error               // joined errors
}

// progress is the last round of a series and its value. When a reader of metrics ends, it may send the last
// round again.
type progress struct{ round, value int64 }

func newReceiver(rounds int64) *receiver {
	return &receiver{rounds: rounds, seen: map[int64]int{}, counters: map[int64]*progress{}, histograms: map[int64]*progress{}}
}

// take counts a request and checks its content with check.
func (r *receiver) take(check func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	err := check()
	r.trouble = errors.Join(r.trouble, err)
	return err
}

func (r *receiver) takeTraces(m *collectortrace.ExportTraceServiceRequest) error {
	for _, of := range m.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				n := numberOf(s.Attributes, "n")
				r.spans, r.seen[n] = r.spans+1, r.seen[n]+1
				name := "GET " + shop.Route(max(n, 0))
				if n%2 == 1 {
					name = "SELECT orders"
				}
				if s.Name != name || numberOf(s.Attributes, "user.id") != shop.User(n) || textOf(s.Attributes, "http.route") != shop.Route(max(n, 0)) || (n%2 == 1) != (len(s.ParentSpanId) == 8) {
					return fmt.Errorf("span %d is %v", n, s)
				}
			}
		}
	}
	return nil
}

func (r *receiver) takeLogs(m *collectorlogs.ExportLogsServiceRequest) error {
	for _, of := range m.ResourceLogs {
		for _, scope := range of.ScopeLogs {
			for _, l := range scope.LogRecords {
				n := numberOf(l.Attributes, "n")
				if n != r.nextLog || l.Body.GetStringValue() != shop.Text(n) {
					return fmt.Errorf("log record %d arrived as the %dth: %q", n, r.nextLog, l.Body.GetStringValue())
				}
				r.logs, r.nextLog = r.logs+1, n+1
			}
		}
	}
	return nil
}

func (r *receiver) takeMetrics(m *collectormetrics.ExportMetricsServiceRequest) error {
	for _, of := range m.ResourceMetrics {
		for _, scope := range of.ScopeMetrics {
			for _, metric := range scope.Metrics {
				if err := r.takeMetric(metric); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (r *receiver) takeMetric(m *metrics.Metric) error {
	switch m.Name {
	case "shop.orders":
		for _, p := range m.GetSum().GetDataPoints() {
			value := p.GetAsInt() + int64(p.GetAsDouble())
			if err := r.point(r.counters, numberOf(p.Attributes, "series"), value, -1, shop.Grows); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
		}
	case "shop.latency":
		for _, p := range m.GetHistogram().GetDataPoints() {
			if err := r.point(r.histograms, numberOf(p.Attributes, "series"), int64(p.GetSum()), int64(p.Count), shop.Millis); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
		}
	}
	return nil
}

// point checks the value of a series that is a sum over rounds: it must be that of the next round, or of the
// last one again. count is the number of rounds that the point itself reports, -1 if it reports none.
func (r *receiver) point(all map[int64]*progress, series, value, count int64, grows func(series, round int64) int64) error {
	p := all[series]
	if p == nil {
		p = &progress{}
		all[series] = p
	}
	r.points++
	again := value == p.value && p.round > 0 && (count < 0 || count == p.round)
	if again {
		return nil
	}
	p.round++
	p.value += grows(series, p.round)
	if value != p.value || count >= 0 && count != p.round {
		return fmt.Errorf("series %d is %d in round %d, not %d", series, value, p.round, p.value)
	}
	return nil
}

// complete returns an error that names what is missing, or nil.
func (r *receiver) complete() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.trouble != nil {
		return r.trouble
	}
	for n := range r.rounds * shop.Spans {
		if r.seen[n] != 1 {
			return fmt.Errorf("span %d arrived %d times", n, r.seen[n])
		}
	}
	if r.nextLog != r.rounds*shop.Logs || len(r.seen) != int(r.rounds*shop.Spans) {
		return fmt.Errorf("%d log records and %d spans arrived", r.nextLog, len(r.seen))
	}
	for _, of := range []struct {
		series map[int64]*progress
		want   int64
	}{{r.counters, shop.Counters}, {r.histograms, shop.Latency}} {
		for i := range of.want {
			if p := of.series[i]; p == nil || p.round != r.rounds {
				return fmt.Errorf("series %d of %d reached round %v of %d", i, of.want, p, r.rounds)
			}
		}
	}
	return nil
}

// numberOf returns a numeric attribute, -1 if there is none.
func numberOf(all []*common.KeyValue, name string) int64 {
	for _, a := range all {
		if a.Key == name {
			if d, ok := a.Value.GetValue().(*common.AnyValue_DoubleValue); ok { // JavaScript's numbers
				return int64(d.DoubleValue)
			}
			return a.Value.GetIntValue()
		}
	}
	return -1
}

func textOf(all []*common.KeyValue, name string) string {
	for _, a := range all {
		if a.Key == name {
			return a.Value.GetStringValue()
		}
	}
	return ""
}
