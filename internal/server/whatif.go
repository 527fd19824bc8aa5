package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy/simulate"
)

// whatIf estimates the effect of other settings on a gateway's values, and holds the settings that replace
// those of rules. It is nil for gateways without estimates.
type whatIf struct {
	gateway, protocol string
	watch             *simulate.Watch
	overrides         *simulate.Overrides
	stats             *gateway.Stats
	log               *slog.Logger
}

type whatIfGateway struct {
	Gateway     string       `json:"gateway"`
	Protocol    string       `json:"protocol"`
	Unavailable string       `json:"unavailable,omitempty"` // why there are no estimates
	Rules       []whatIfRule `json:"rules"`
}

type whatIfRule struct {
	simulate.Rule
	Applied *appliedSetting `json:"applied,omitempty"`
}

// appliedSetting compares the forecast for an applied setting with what the gateway has counted since.
type appliedSetting struct {
	Setting   string    `json:"setting"`
	At        time.Time `json:"at"`
	Forecast  float64   `json:"forecast_ratio"`
	Observed  float64   `json:"observed_ratio"` // 0: nothing counted yet
	Values    uint64    `json:"values"`
	AppliedBy string    `json:"applied_by"`
	Ends      string    `json:"ends"`
}

func (w *whatIf) close() {
	if w != nil {
		w.watch.Close()
	}
}

// restoreAll restores the configured settings of all rules, after a reload.
func (w *whatIf) restoreAll() {
	if w == nil {
		return
	}
	if n := w.overrides.Clear(); n > 0 {
		w.log.Info("the reload restored the configured settings of rules", "rules", n)
	}
}

// document starts or prolongs the sampling of values, and returns the results so far.
func (w *whatIf) document(cfg *config.Gateway) whatIfGateway {
	w.watch.Ask()
	d := whatIfGateway{Gateway: w.gateway, Protocol: w.protocol, Rules: []whatIfRule{}}
	if cfg == nil {
		d.Unavailable = "the configuration no longer has the gateway"
		return d
	}
	applied, counted := w.overrides.Applied(), w.counts()
	for _, r := range w.rules(cfg) {
		rule := whatIfRule{Rule: r}
		for i := range rule.Choices {
			c := &rule.Choices[i]
			c.YAML = cfg.RuleYAML(r.Rule, c.Replacement)
		}
		if a, ok := applied[r.Rule]; ok {
			rule.Applied = w.appliedResult(a, counted[r.Rule], r.Sampled)
		}
		d.Rules = append(d.Rules, rule)
	}
	return d
}

func (w *whatIf) rules(cfg *config.Gateway) []simulate.Rule {
	names := map[string]string{}
	for i := range cfg.Rules {
		names[cfg.Rules[i].Name] = cfg.Rules[i].DictionaryOf()
	}
	q := simulate.Inputs{Dictionary: func(rule string) string { return names[rule] }}
	if total := w.stats.Snapshot().Total; total.Sealed > 0 {
		q.Opens = float64(total.Opened) / float64(total.Sealed)
	}
	return w.watch.Rules(q)
}

// counts returns the gateway's counts by rule. For a rule that only observes, it counts as stored what
// compressing would have stored.
func (w *whatIf) counts() map[string]simulate.Counted {
	all := map[string]simulate.Counted{}
	for _, r := range w.stats.Snapshot().Rules {
		c := simulate.Counted{Values: r.Sealed + r.Left, Raw: r.RawBytes, Stored: r.StoredBytes}
		if o := r.Observed; o != nil {
			c.Stored += o.StoredBytes - o.RawBytes // unsigned wraparound is harmless: Stored includes the raw bytes, which were left uncompressed
		}
		all[r.Rule] = c
	}
	return all
}

// appliedResult returns the result of an applied setting. If the setting is raw, nothing is counted as stored: then
// the observed ratio is 1 as soon as there are samples.
func (w *whatIf) appliedResult(a simulate.Applied, now simulate.Counted, sampled uint64) *appliedSetting {
	s := &appliedSetting{
		Setting: a.Setting, At: a.At.UTC(), Forecast: a.Forecast, AppliedBy: "page", Ends: "at the next reload",
		Values: now.Values - a.Before.Values,
	}
	if stored := now.Stored - a.Before.Stored; stored > 0 {
		s.Observed = float64(now.Raw-a.Before.Raw) / float64(stored)
	}
	if a.Replacement.Setting.Codec == codec.Raw && sampled > 0 {
		s.Observed = 1
	}
	return s
}

// whatIfRefusal explains why a setting is not applied.
type whatIfRefusal struct {
	Text string `json:"error"`
	Hint string `json:"hint,omitempty"`
}

func (r *whatIfRefusal) Error() string { return r.Text }

// MarshalJSON includes the hint for the page.
func (r *whatIfRefusal) MarshalJSON() ([]byte, error) {
	type plain whatIfRefusal
	return json.Marshal((*plain)(r))
}

func refuse(hint, format string, args ...any) error {
	return &whatIfRefusal{fmt.Sprintf(format, args...), hint}
}

// whatIfPosted is the body that the page posts.
type whatIfPosted struct {
	Gateway    string `json:"gateway"`
	Rule       string `json:"rule"`
	Codec      string `json:"codec"`
	Level      int    `json:"level"`
	Dictionary string `json:"dictionary"`
	MinSize    int    `json:"min_size"`
}

func readPosted(text []byte) (p whatIfPosted, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil || d.More() {
		return p, refuse(`post {"gateway", "rule", "codec", "level", "dictionary", "min_size"} as /api/whatif lists them`, "not a setting that can be applied")
	}
	return p, nil
}

// choice returns the choice that was posted.
func (w *whatIf) choice(g *config.Gateway, posted whatIfPosted) (*simulate.Choice, error) {
	for _, r := range w.rules(g) {
		if r.Rule != posted.Rule {
			continue
		}
		for i := range r.Choices {
			c := &r.Choices[i]
			if c.Codec == posted.Codec && c.Level == posted.Level && c.Dictionary == posted.Dictionary && (c.Leave || c.MinSize == posted.MinSize) {
				return c, nil
			}
		}
		return nil, refuse("GET /api/whatif lists the choices: write other settings into the configuration",
			"rule %.80q has no choice of codec %.40q, level %d, dictionary %.40q, from %d bytes", posted.Rule, posted.Codec, posted.Level, posted.Dictionary, posted.MinSize)
	}
	return nil, refuse("GET /api/whatif lists them", "gateway %.80q has no rule %.80q", posted.Gateway, posted.Rule)
}
