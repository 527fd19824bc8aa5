package server

import (
	"errors"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/server/upgrade"
)

// Reload makes the process read its configuration again, while it serves and doesn't drain. It doesn't wait
// for that; the result is logged.
func (p *Process) Reload() {
	select {
	case p.reloads <- struct{}{}:
	default: // a reload is pending already
	}
}

// reload applies what can change while connections last. If anything is wrong nothing changes.
func (p *Process) reload() {
	upgrade.NotifyReloading()
	err := p.tryReload()
	p.reloaded.note(err)
	upgrade.NotifyReady(p.status())
	if err != nil {
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

func (p *Process) tryReload() error {
	cfg, err := p.options.Load()
	if err != nil {
		return err
	}
	l, err := loadFiles(cfg, p.options.Force)
	if err != nil {
		return err
	}
	for _, key := range config.Frozen(p.started, cfg) {
		p.log.Warn("changed configuration key needs a restart", "key", key)
	}
	setLevel(p.level, cfg.Log.Level)
	p.warn(cfg.Warnings())
	kept := 0
	p.overriding.Lock()
	defer p.overriding.Unlock()
	for _, r := range p.gateways {
		r.whatIf.restoreAll()
		p.applyRules(r, l)
		if g := cfg.Gateway(r.name); g != nil {
			r.effort.SetLimits(g.Budgets())
			kept++
		}
	}
	p.current.Store(l)
	p.log.Info("configuration reloaded", "file", cfg.File(), "gateways", kept, "dictionaries", len(l.dicts))
	return nil
}

// applyRules gives a gateway its rules of l, or leaves its rules unchanged if l does not have it.
func (p *Process) applyRules(r *running, l *loaded) {
	old := p.current.Load()
	switch {
	case r.messages != nil && l.messages[r.name] != nil:
		r.messages.SetPolicy(l.messages[r.name])
		if r.kinds != nil {
			r.kinds.Resize(l.ruleMemory())
		}
	case r.auto != nil && l.policies[r.name] != nil:
		r.store.backend.reconfigure(l.cfg.Gateway(r.name))
		r.store.adopt(l.ruleDicts(r.name)) // before SetRules, so that no value names one that is missing
		r.auto.SetRules(l.rules(r.name))
	default:
		keepRules(l.policies, old.policies, r.name)
		keepRules(l.messages, old.messages, r.name)
	}
}

// keepRules gives a gateway the rules that it had before, or none if it had none: tunnels have no rules, and
// the kind of rules may have changed with the protocol.
func keepRules[P any](now, before map[string]*P, gateway string) {
	if p := before[gateway]; p != nil {
		now[gateway] = p
	} else {
		delete(now, gateway)
	}
}
