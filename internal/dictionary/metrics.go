package dictionary

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics exports the state of a process's managers to Prometheus. It stores nothing itself. Its fields must
// be set before it is registered.
type Metrics struct {
	Trainer  *Trainer
	Managers []NamedManager
}

// NamedManager is the manager of the gateway called Gateway.
type NamedManager struct {
	Gateway string
	*Manager
}

// docs/METRICS.md lists the same names; a test compares them.
var (
	descTrainings = desc("cinch_dictionary_trainings_total", "Trainings begun, by reason.", "gateway", "rule", "reason")
	descSeconds   = prometheus.NewDesc("cinch_dictionary_training_cpu_seconds_total", "CPU time spent on training and evaluating dictionaries, in seconds.", nil, nil)
	descBytes     = prometheus.NewDesc("cinch_dictionary_training_bytes", "Size of the samples in the current training, in bytes.", nil, nil)
	descRollouts  = desc("cinch_dictionary_rollouts_total", "Dictionaries trained, stored and announced.", "gateway", "rule")
	descAdopted   = desc("cinch_dictionary_adopted_total", "Dictionaries of other gateways taken into use.", "gateway", "rule")
	descRejected  = desc("cinch_dictionary_rejected_total", "Dictionaries of other gateways that were rejected, because they did not suit this gateway's values.", "gateway", "rule")
	descRefused   = desc("cinch_dictionary_refused_total", "Trainings that ended without a rollout, by reason.", "gateway", "rule", "reason")
	descInfo      = desc("cinch_dictionary_info", "Always 1; number is the dictionary in use for the rule.", "gateway", "rule", "number")
	descPromised  = desc("cinch_dictionary_promised_ratio", "Ratio of raw to stored bytes that was estimated before the rollout.", "gateway", "rule")
	descObserved  = desc("cinch_dictionary_observed_ratio", "Ratio of raw to stored bytes of about the last thousand values.", "gateway", "rule")
	descSamples   = desc("cinch_dictionary_sample_values", "Values in the sample.", "gateway", "rule")
	descMemory    = desc("cinch_dictionary_sample_bytes", "Memory used by the sample, in bytes.", "gateway", "rule")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe implements prometheus.Collector. All descriptions are constant.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descTrainings, descSeconds, descBytes, descRollouts, descAdopted, descRejected, descRefused,
		descInfo, descPromised, descObserved, descSamples, descMemory,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter(descSeconds, m.Trainer.Worked().Seconds())
	gauge(descBytes, float64(m.Trainer.InMemory()))
	for _, manager := range m.Managers {
		for _, s := range manager.Status() {
			at := []string{manager.Gateway, s.Rule}
			for reason, n := range s.Trainings {
				counter(descTrainings, float64(n), append(at, reason)...)
			}
			for reason, n := range s.Refused {
				counter(descRefused, float64(n), append(at, reason)...)
			}
			counter(descRollouts, float64(s.Rollouts), at...)
			counter(descAdopted, float64(s.Adopted), at...)
			counter(descRejected, float64(s.Rejected), at...)
			if !s.Active {
				continue
			}
			if s.Number != 0 {
				gauge(descInfo, 1, append(at, fmt.Sprintf("%08x", s.Number))...)
			}
			gauge(descPromised, Ratio(s.Promised), at...)
			gauge(descObserved, Ratio(s.Observed), at...)
			gauge(descSamples, float64(s.SampleValues), at...)
			gauge(descMemory, float64(s.SampleBytes), at...)
		}
	}
}

// Ratio converts stored/raw to raw/stored, which is shown to people. 0 stays 0.
func Ratio(share float64) float64 {
	if share == 0 {
		return 0
	}
	return 1 / share
}
