package server

import (
	"context"
	"errors"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/policy/simulate"
)

// whatIfDocument answers /api/whatif. docs/METRICS.md documents the fields.
type whatIfDocument struct {
	Actions  bool            `json:"actions"` // the admin page accepts credentials, so settings can be applied
	Gateways []whatIfGateway `json:"gateways"`
}

// whatIfPage answers the admin page's requests about other settings, for all gateways.
type whatIfPage struct{ *Process }

// document starts or prolongs the sampling of values, and returns the results so far.
func (p whatIfPage) document() any {
	d := whatIfDocument{Actions: p.acceptsActions, Gateways: []whatIfGateway{}}
	l := p.current.Load()
	for _, r := range p.gateways {
		if r.whatIf != nil {
			d.Gateways = append(d.Gateways, r.whatIf.document(l.cfg.Gateway(r.name)))
			continue
		}
		d.Gateways = append(d.Gateways, whatIfGateway{
			Gateway: r.name, Protocol: p.started.Gateway(r.name).Protocol, Rules: []whatIfRule{},
			Unavailable: "not available for this protocol",
		})
	}
	return d
}

func (p whatIfPage) actions() []admin.Action {
	return []admin.Action{
		{Name: "whatif-apply", Do: func(_ context.Context, posted []byte) (any, error) { return p.apply(posted) }},
		{Name: "whatif-undo", Do: func(_ context.Context, posted []byte) (any, error) { return p.undo(posted) }},
	}
}

// find returns the whatIf of the gateway with the given name.
func (p whatIfPage) find(name string) (*whatIf, error) {
	for _, r := range p.gateways {
		if r.name != name {
			continue
		}
		if r.whatIf == nil {
			return nil, refuse("change its rules in the configuration, and reload", "the rules of gateway %.80q can't be replaced here", name)
		}
		return r.whatIf, nil
	}
	return nil, refuse("GET /api/whatif lists them", "there is no gateway %.80q", name)
}

// apply replaces a rule's setting by the posted choice.
func (p whatIfPage) apply(text []byte) (any, error) {
	posted, err := readPosted(text)
	if err != nil {
		return nil, err
	}
	w, err := p.find(posted.Gateway)
	if err != nil {
		return nil, err
	}
	p.overriding.Lock() // no reload meanwhile
	defer p.overriding.Unlock()
	cfg := p.current.Load().cfg
	g := cfg.Gateway(w.gateway)
	if g == nil {
		return nil, refuse("", "the configuration no longer has gateway %.80q", posted.Gateway)
	}
	choice, err := w.choice(g, posted)
	if err != nil {
		return nil, err
	}
	if _, err := cfg.WithRule(w.gateway, posted.Rule, choice.Replacement); err != nil {
		return nil, refuse(hintOf(err), "the rule would be invalid: %v", err)
	}
	a := simulate.Applied{
		Replacement: choice.Replacement, Setting: choice.Setting, At: time.Now(), Before: w.counts()[posted.Rule],
	}
	if choice.Ratio > 0 {
		a.Forecast = choice.Ratio
	}
	w.overrides.Replace(posted.Rule, a)
	w.log.Info("a rule's setting was replaced until the next reload", "rule", posted.Rule, "setting", choice.Setting, "forecast", a.Forecast)
	return w.appliedResult(a, a.Before, 0), nil
}

// hintOf returns the hint of an invalid configuration, or "".
func hintOf(err error) string {
	var invalid *config.Error
	if errors.As(err, &invalid) && len(invalid.Problems) > 0 {
		return invalid.Problems[0].Hint
	}
	return ""
}

// undo restores the configured setting of a rule.
func (p whatIfPage) undo(text []byte) (any, error) {
	posted, err := readPosted(text)
	if err != nil {
		return nil, err
	}
	w, err := p.find(posted.Gateway)
	if err != nil {
		return nil, err
	}
	if !w.overrides.Undo(posted.Rule) {
		return nil, refuse("", "rule %.80q has the configured setting already", posted.Rule)
	}
	w.log.Info("a rule's configured setting was restored", "rule", posted.Rule)
	return map[string]string{"rule": posted.Rule}, nil
}
