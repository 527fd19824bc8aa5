package main

import (
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/policy"
)

// newTrainer makes what trains dictionaries for all gateways, with the same
// implementation of zstd that the gateways use.
func (p *process) newTrainer() *autodict.Trainer {
	zstd := p.started.Zstd
	var external dict.Trainer
	if p.engine.ZstdName() == "libzstd" {
		external = libzstd.Train
	}
	return autodict.NewTrainer(autodict.TrainerOptions{
		NewEngine: func() *codec.Engine {
			e, err := engineWith(zstd)
			if err != nil { // it was there when the process started
				return p.engine
			}
			return e
		},
		External: external,
		Share:    float64(p.started.Training.CPU) / 100,
	})
}

// newAutodict makes what looks after the gateway's dictionaries, and hands the policies that
// name them to apply. It has no rules yet.
func (p *process) newAutodict(r *running, apply func(*policy.Policy), log *slog.Logger) *autodict.Manager {
	t := &p.started.Training
	return autodict.New(autodict.Options{
		By:         gatewayID(r.name),
		Store:      r.dictStore(),
		Trainer:    p.trainer,
		Apply:      apply,
		Log:        log,
		MaxSample:  int(t.MaxSample),
		MinSamples: t.MinSamples,
		MinSaving:  max(float64(t.MinSaving)/100, nearZero),
		Drift:      max(float64(t.Drift)/100, nearZero),
		Interval:   time.Duration(t.Interval),
		Poll:       time.Duration(t.Poll),
	})
}

// nearZero is what 0% means; zero would mean the default.
const nearZero = 1e-9

// gatewayID names a gateway of this process to those of others: host/gateway/random.
func gatewayID(name string) string {
	host, _ := os.Hostname()
	var random [4]byte
	_, _ = rand.Read(random[:])
	return strings.ToValidUTF8(host, "") + "/" + name + "/" + hex.EncodeToString(random[:])
}

// rules are what the gateway's manager works on.
func (l *loaded) rules(gateway string) autodict.Rules {
	rules := autodict.Rules{Policy: l.policies[gateway], RuleMemory: l.ruleMemory()}
	if g := l.cfg.Gateway(gateway); g != nil {
		rules.NoSample = g.NoSample()
	}
	return rules
}
