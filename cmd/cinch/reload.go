package main

import (
	"errors"

	"github.com/cinch-layer/cinch/internal/config"
)

// reload reads the configuration again and puts into force what can change
// while connections last. When anything is wrong nothing changes.
func (p *process) reload() {
	if err := p.tryReload(); err != nil {
		var invalid *config.Error
		if errors.As(err, &invalid) {
			for _, problem := range invalid.Problems {
				p.log.Error("configuration is invalid, keeping the old one", "problem", problem.String())
			}
			return
		}
		p.log.Error("configuration can't be read, keeping the old one", "err", err)
	}
}

func (p *process) tryReload() error {
	cfg, err := p.options.load()
	if err != nil {
		return err
	}
	l, err := p.loadFiles(cfg)
	if err != nil {
		return err
	}
	for _, key := range config.Frozen(p.started, cfg) {
		p.log.Warn("configuration changed where it takes a restart", "key", key)
	}
	setLevel(p.level, cfg.Log.Level)
	changed := 0
	for _, r := range p.gateways {
		if p.putInForce(r, l) {
			changed++
		}
	}
	p.current.Store(l)
	p.log.Info("configuration reloaded", "file", cfg.File(), "gateways", changed, "dictionaries", len(l.dicts))
	return nil
}

// putInForce gives a gateway the rules of l, or leaves it those it has when it is not in there.
func (p *process) putInForce(r *running, l *loaded) bool {
	old := p.current.Load()
	switch {
	case r.messages != nil && l.messages[r.name] != nil:
		r.messages.SetPolicy(l.messages[r.name])
		if r.kinds != nil {
			r.kinds.Resize(l.kindMemory(r.name))
		}
	case r.auto != nil && l.policies[r.name] != nil:
		if r.tarantool != nil {
			r.tarantool.reshard(l.cfg.Gateway(r.name))
		}
		r.adopt(l.named(r.name)) // no value names one before it is there
		r.auto.SetRules(l.rules(r.name))
	default:
		l.policies[r.name], l.messages[r.name] = old.policies[r.name], old.messages[r.name]
		return false
	}
	return true
}
