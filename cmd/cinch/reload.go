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
		if l.policies[r.name] != nil {
			r.keeper.adopt(l.named(r.name)) // no value names one before it is there
			r.auto.SetRules(l.rules(r.name))
			changed++
		} else {
			l.policies[r.name] = p.current.Load().policies[r.name]
		}
	}
	p.current.Store(l)
	p.log.Info("configuration reloaded", "file", cfg.File(), "gateways", changed, "dictionaries", len(l.dicts))
	return nil
}
