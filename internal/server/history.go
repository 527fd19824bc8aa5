package server

import (
	"bytes"
	"log/slog"
	"os"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/observe/history"
	"github.com/cinch-layer/cinch/internal/system/cputime"
)

// openHistory reads the recorded counters. It returns nil if they are neither stored nor shown: without a path
// and without the admin page.
func openHistory(cfg *config.Config, engine *codec.Engine, log *slog.Logger) *history.History {
	path := cfg.HistoryPath()
	if cfg.Admin.Listen == config.Off && path == "" {
		return nil
	}
	return history.Open(history.Options{Path: path, MaxBytes: cfg.HistorySize(), Engine: engine, Log: log})
}

// takeSamples starts recording counters. The returned function stops that after a last sample.
func takeSamples(h *history.History, l *admin.Ledger, gateways []*running, trainer *dictionary.Trainer) (end func()) {
	if h == nil {
		return func() {}
	}
	s := newSampler(gateways, trainer)
	take := func() {
		now := time.Now()
		h.Add(now, s.sample())
		l.Note(now, s.snapshots)
	}
	take()
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(history.Interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				take()
			case <-stop:
				take()
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

// sampler reads the counters to record. It is used by one goroutine.
type sampler struct {
	gateways  []*running
	trainer   *dictionary.Trainer
	snapshots []gateway.Snapshot  // of the last sample
	before    []gateway.Latencies // likewise, by gateway
	rules     map[[2]string]bool  // by gateway and rule: the rules that have series of their own
}

// maxSampledRules limits the rules of a process that have series of their own. A rule that has one keeps it; all
// rules beyond the limit share one series.
const (
	maxSampledRules = 128
	otherRules      = "other"
)

func newSampler(gateways []*running, trainer *dictionary.Trainer) *sampler {
	return &sampler{gateways: gateways, trainer: trainer, before: make([]gateway.Latencies, len(gateways)), rules: map[[2]string]bool{}}
}

// sample lists the series that docs/METRICS.md has.
func (s *sampler) sample() []history.Sample {
	out := samples{}
	out.counter("cpu_us", cputime.Process().Microseconds())
	out.counter("training_cpu_us", s.trainer.Worked().Microseconds())
	out.gauge("memory_bytes", residentBytes())
	s.snapshots = s.snapshots[:0]
	for i, r := range s.gateways {
		out.gateway, out.rule = r.name, ""
		snap, latencies := r.stats.Snapshot(), r.stats.Latencies()
		s.snapshots = append(s.snapshots, snap)
		out.gatewayTotals(&snap)
		out.gauge("added_latency_p50_us", latencies.Quantile(s.before[i], 0.50).Microseconds())
		out.gauge("added_latency_p99_us", latencies.Quantile(s.before[i], 0.99).Microseconds())
		s.before[i] = latencies
		s.addRules(&out, snap.Rules)
	}
	return out.list
}

// addRules adds the rules of a gateway.
func (s *sampler) addRules(out *samples, rules []gateway.RuleTotal) {
	var others gateway.RuleTotal
	more := false
	for _, t := range rules {
		key := [2]string{out.gateway, t.Rule}
		if !s.rules[key] && (len(s.rules) >= maxSampledRules || t.Rule == otherRules) {
			others.Sealed, others.Left = others.Sealed+t.Sealed, others.Left+t.Left
			others.RawBytes, others.StoredBytes = others.RawBytes+t.RawBytes, others.StoredBytes+t.StoredBytes
			others.SealCPUSeconds += t.SealCPUSeconds
			more = true
			continue
		}
		s.rules[key] = true
		out.ruleTotals(t.Rule, &t)
	}
	if more {
		out.ruleTotals(otherRules, &others)
	}
}

// samples collects the samples of one moment, by gateway and rule.
type samples struct {
	list          []history.Sample
	gateway, rule string
}

func (s *samples) add(name string, kind history.Kind, v int64) {
	s.list = append(s.list, history.Sample{Series: history.Series{Name: name, Gateway: s.gateway, Rule: s.rule}, Kind: kind, Value: v})
}

func (s *samples) counter(name string, v int64) { s.add(name, history.Counter, v) }
func (s *samples) gauge(name string, v int64)   { s.add(name, history.Gauge, v) }

func (s *samples) gatewayTotals(snap *gateway.Snapshot) {
	var errors, raw, stored uint64
	for _, n := range snap.Errors {
		errors += n
	}
	for _, c := range snap.Opened {
		raw, stored = raw+c.RawBytes, stored+c.StoredBytes
	}
	s.counter("client_received_bytes", int64(snap.Wire.Client.ReceivedBytes))
	s.counter("client_sent_bytes", int64(snap.Wire.Client.SentBytes))
	s.counter("upstream_received_bytes", int64(snap.Wire.Upstream.ReceivedBytes))
	s.counter("upstream_sent_bytes", int64(snap.Wire.Upstream.SentBytes))
	s.counter("opened_values", int64(snap.Total.Opened))
	s.counter("opened_raw_bytes", int64(raw))
	s.counter("opened_stored_bytes", int64(stored))
	s.counter("open_cpu_us", int64(snap.Total.OpenCPUSeconds*1e6))
	s.counter("errors", int64(errors))
	s.counter("connections_accepted", int64(snap.Connections.Total))
	s.gauge("connections_open", snap.Connections.Open)
	stores := int64(0) // the history outlives the gateway's configuration
	if gateway.StoresValues(snap.Protocol) {
		stores = 1
	}
	s.gauge("stores_values", stores)
}

func (s *samples) ruleTotals(rule string, t *gateway.RuleTotal) {
	s.rule = rule
	s.counter("raw_bytes", int64(t.RawBytes))
	s.counter("stored_bytes", int64(t.StoredBytes))
	s.counter("sealed_values", int64(t.Sealed))
	s.counter("left_values", int64(t.Left))
	s.counter("seal_cpu_us", int64(t.SealCPUSeconds*1e6))
	s.rule = ""
}

// residentBytes returns the process's resident memory, or what Go obtained from the system where that is
// unknown.
func residentBytes() int64 {
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := bytes.Fields(text); len(f) > 1 {
			if pages, err := strconv.ParseInt(string(f[1]), 10, 64); err == nil {
				return pages * int64(os.Getpagesize())
			}
		}
	}
	all := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	metrics.Read(all)
	return int64(all[0].Value.Uint64())
}
