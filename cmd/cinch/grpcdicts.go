package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/admin"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/mongo"
)

// newKinds makes what measures the messages of a gateway, and trains dictionaries for
// its rules.
func (p *process) newKinds(l *loaded, g *config.Gateway, log *slog.Logger) *autodict.Messages {
	t := &p.started.Training
	maxDict := 0
	if g.Protocol == config.Mongo {
		maxDict = mongo.MaxTrained
	}
	return autodict.NewMessages(autodict.MessagesOptions{
		Trainer:    p.trainer,
		Log:        log,
		Memory:     l.kindMemory(g.Name),
		MaxDict:    maxDict,
		MinSamples: t.MinSamples,
		MinSaving:  max(float64(t.MinSaving)/100, nearZero),
		Drift:      max(float64(t.Drift)/100, nearZero),
		Interval:   time.Duration(t.Interval),
		Poll:       time.Duration(t.Poll),
	})
}

// ruleMemory is how much a rule may sample. The memory for samples is divided among the
// rules of the whole process that want some.
func (l *loaded) ruleMemory() int {
	t := &l.cfg.Training
	auto := 0
	for _, p := range l.policies {
		for _, r := range p.Rules() {
			if r.Auto {
				auto++
			}
		}
	}
	for _, p := range l.messages {
		for _, r := range p.Rules() {
			if r.AutoDict {
				auto++
			}
		}
	}
	return min(int(t.RuleMemory), int(t.SampleMemory)/max(auto, 1))
}

// kindMemory is what the messages of a gateway may take in samples: a share for each rule,
// and one where nothing but measuring is wanted.
func (l *loaded) kindMemory(gateway string) int {
	auto := 0
	for _, r := range l.messages[gateway].Rules() {
		if r.AutoDict {
			auto++
		}
	}
	return l.ruleMemory() * max(auto, 1)
}

// describeKinds tells the admin page what is known of messages, which is numbers only.
func describeKinds(k *autodict.Messages) []admin.Kind {
	var list []admin.Kind
	for _, s := range k.Status() {
		kind := admin.Kind{
			KindStatus: s, PromisedRatio: autodict.Ratio(s.Promised), ObservedRatio: autodict.Ratio(s.Observed),
		}
		if s.Dict != nil {
			kind.Dictionary, kind.DictionaryBytes = fmt.Sprintf("%08x", s.Dict.Number()), len(s.Dict.Content())
		}
		list = append(list, kind)
	}
	return list
}

// estimated are the settings that messages are tried with for /api/messages.
var estimated = []string{"s2", "zstd-1", "zstd-3"}

// describeMessageKinds answers /api/messages.
func (p *process) describeMessageKinds() []admin.GatewayKinds {
	var all []admin.GatewayKinds
	for _, r := range p.gateways {
		if r.kinds == nil {
			continue
		}
		g := admin.GatewayKinds{Gateway: r.name, Messages: []admin.MeasuredKind{}}
		for _, k := range describeKinds(r.kinds) {
			estimates := r.kinds.Estimates(k.KindStatus, estimated, p.estimate)
			g.Messages = append(g.Messages, admin.MeasuredKind{Kind: k, Estimates: estimates})
		}
		all = append(all, g)
	}
	return all
}

// estimate compresses with the engine, whose turns bound it.
func (p *process) estimate(dst, src []byte, setting string) ([]byte, error) {
	s, err := codec.ParseSetting(setting)
	if err != nil {
		return nil, err
	}
	return p.engine.Compress(dst, src, s, nil)
}
