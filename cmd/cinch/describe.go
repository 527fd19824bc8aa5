package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/admin"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

// describe tells the admin page what is configured right now.
func (p *process) describe() admin.Description {
	l := p.current.Load()
	var d admin.Description
	for _, r := range p.gateways {
		info := admin.GatewayInfo{Name: r.name, Listen: r.listener.Addr().String(), Upstream: r.upstream.String()}
		if r.auto != nil {
			describeRules(&info, r.auto.Policy())
		} else if r.tunnelSetting != "" {
			describeTunnel(&info, r)
		} else {
			describeMessages(&info, l.messages[r.name])
		}
		info.Pack = p.describePacking(r)
		if r.kinds != nil {
			info.Messages = describeKinds(r.kinds)
		}
		d.Gateways = append(d.Gateways, info)
	}
	d.Dictionaries = p.describeDicts(l)
	return d
}

func describeRules(info *admin.GatewayInfo, p *policy.Policy) {
	info.Enabled = !p.Off
	for _, rule := range p.Rules() {
		info.Rules = append(info.Rules, admin.RuleInfo{Name: rule.Name, Match: describeMatch(rule), Setting: describeSetting(rule)})
	}
}

func describeMessages(info *admin.GatewayInfo, p *policy.Messages) {
	info.Enabled = !p.Off
	for _, rule := range p.Rules() {
		setting := rule.Setting.String()
		switch {
		case rule.Auto:
			setting = "auto"
		case rule.AutoDict:
			setting += " (dictionary: auto)"
		case rule.Dict != nil:
			setting += fmt.Sprintf("@%08x", rule.Dict.Number())
		}
		info.Rules = append(info.Rules, admin.RuleInfo{Name: rule.Name, Match: describeMessage(rule), Setting: setting})
	}
}

// describeMessage says for people what a rule covers: "cortex.Ingester · Push · request · from 1KiB".
func describeMessage(r *policy.MessageRule) string {
	parts := []string{cmp.Or(r.Space, "*")}
	if len(r.Commands) > 0 {
		parts = append(parts, strings.Join(r.Commands, ", "))
	}
	return strings.Join(append(append(parts, r.Direction.String()), describeSizes(r.MinSize, r.MaxSize)...), " · ")
}

func describeSizes(from, to int) []string {
	var parts []string
	if from > 1 {
		parts = append(parts, "from "+config.Bytes(from).String())
	}
	if to > 0 {
		parts = append(parts, "to "+config.Bytes(to).String())
	}
	return parts
}

// describeDicts lists the dictionaries of files, those that gateways made and use, and then
// others that came from stores.
func (p *process) describeDicts(l *loaded) []admin.Dictionary {
	var list []admin.Dictionary
	listed := map[uint32]bool{}
	add := func(name string, d *codec.Dict) {
		listed[d.Number()] = true
		list = append(list, admin.Dictionary{Name: name, Number: fmt.Sprintf("%08x", d.Number()), Bytes: len(d.Content())})
	}
	for _, name := range slices.Sorted(maps.Keys(l.dicts)) {
		add(name, l.dicts[name])
	}
	for _, r := range p.gateways {
		if r.auto == nil {
			continue
		}
		for _, s := range r.auto.Status() {
			if d, ok := r.localDicts().Get(s.Number); ok {
				add("", d)
				in := &list[len(list)-1]
				in.Gateway, in.Rule = r.name, s.Rule
				in.Promised, in.Observed = autodict.Ratio(s.Promised), autodict.Ratio(s.Observed)
			}
		}
	}
	for _, r := range p.gateways {
		if r.auto == nil {
			continue
		}
		for _, d := range r.localDicts().All() {
			if !listed[d.Number()] {
				add("", d)
			}
		}
	}
	return list
}

func describeSetting(r *policy.Rule) string {
	if r.Auto {
		return r.Setting.String() + " (auto)"
	}
	return r.Setting.String()
}

// describeMatch says for people what a rule covers: "menu:* · string · from 64".
func describeMatch(r *policy.Rule) string {
	parts := []string{cmp.Or(r.Key, "*")}
	if r.Types == policy.Argument {
		return strings.Join(append([]string{"function " + r.Key, "argument " + r.Field}, describeSizes(r.MinSize, r.MaxSize)...), " · ")
	}
	if r.Field != "" {
		parts = append(parts, "field "+r.Field)
	}
	if r.Space != "" {
		parts = append(parts, "db "+r.Space)
	}
	parts = append(parts, r.Types.String())
	return strings.Join(append(parts, describeSizes(r.MinSize, r.MaxSize)...), " · ")
}

// probeInterval is how old an answer about the upstreams may be. Whoever asks,
// and however often, costs them no more than a connection in this time.
const probeInterval = 2 * time.Second

// probes remembers whether the upstreams could be reached.
type probes struct {
	mu   sync.Mutex
	at   time.Time
	last error
}

var errDraining = errors.New("draining")

// ready reports whether clients would be served: we are not draining, and each
// upstream takes connections.
func (p *process) ready() error {
	if p.draining.Load() {
		return errDraining
	}
	p.probes.mu.Lock()
	defer p.probes.mu.Unlock()
	if time.Since(p.probes.at) < probeInterval {
		return p.probes.last
	}
	p.probes.last = p.probe()
	p.probes.at = time.Now()
	return p.probes.last
}

// probe connects to all upstreams at a time.
func (p *process) probe() error {
	errs := make([]error, len(p.gateways))
	var all sync.WaitGroup
	for i, r := range p.gateways {
		all.Go(func() {
			if err := r.reach(); err != nil {
				errs[i] = fmt.Errorf("gateway %s: %w", r.name, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// reach connects to the upstream; of several servers one has to answer.
func (r *running) reach() (err error) {
	for _, up := range append([]gateway.Upstream{r.upstream}, r.others...) {
		up.Stats, up.Timeout = nil, time.Second // not a client's traffic
		var c net.Conn
		if c, err = up.Dial(context.Background()); err == nil {
			_ = c.Close()
			return nil
		}
	}
	return err
}

// warnUnreachable tells early what clients would find out. It is no reason not
// to start: the store may come up after us.
func (p *process) warnUnreachable() {
	if err := p.probe(); err != nil {
		p.log.Warn("upstream unreachable, clients get errors until it is there", "err", err)
	}
}
