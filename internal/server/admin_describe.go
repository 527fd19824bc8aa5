package server

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/policy"
)

// describe returns the current configuration, dictionaries and prices for the admin page.
func (p *Process) describe() admin.Description {
	l := p.current.Load()
	var d admin.Description
	for _, r := range p.gateways {
		info := admin.GatewayInfo{Name: r.name, Listen: r.listener.Addr().String(), Upstream: r.upstream.String()}
		if r.auto != nil {
			inForce, configured := r.policies()
			describeRules(&info, inForce, configured)
		} else if r.tunnelSetting != "" {
			describeTunnel(&info, r)
		} else if r.postgres != nil {
			describePostgres(&info, r.postgres)
		} else {
			describeMessages(&info, l.messages[r.name])
		}
		info.Pack = r.packer.describe()
		if r.kinds != nil {
			info.Messages = r.kinds.Status()
		}
		d.Gateways = append(d.Gateways, info)
	}
	d.Dictionaries = p.describeDicts(l)
	d.Learning = p.describeLearning()
	d.Prices = &l.prices
	return d
}

// policies returns the policy in force of a gateway to a store, and the one of its configuration.
func (r *running) policies() (inForce, configured *policy.Policy) {
	if r.whatIf != nil {
		return r.whatIf.overrides.Policies()
	}
	p := r.auto.Policy()
	return p, p
}

// describeRules describes the rules in force. configured has the same rules with the settings of the configuration.
func describeRules(info *admin.GatewayInfo, p, configured *policy.Policy) {
	info.Enabled = !p.Off
	for i, rule := range p.Rules() {
		is := admin.RuleInfo{Name: rule.Name, Match: describeMatch(rule), Setting: describeSetting(rule)}
		if says := describeSetting(configured.Rules()[i]); says != is.Setting || rule.MinSize != configured.Rules()[i].MinSize {
			is.Instead = says
		}
		info.Rules = append(info.Rules, is)
	}
}

func describeMessages(info *admin.GatewayInfo, p *policy.Messages) {
	info.Enabled = !p.Off
	for _, rule := range p.Rules() {
		setting := rule.Setting.String()
		if rule.Auto {
			setting = "auto"
		}
		info.Rules = append(info.Rules, admin.RuleInfo{Name: rule.Name, Match: describeMessage(rule), Setting: setting})
	}
}

// describeMessage returns a readable summary of what a rule covers: "cortex.Ingester · Push · request · from
// 1KiB".
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

// describeDicts lists the dictionaries of files, then those that gateways made and use, then other ones that came
// from stores.
func (p *Process) describeDicts(l *loaded) []admin.Dictionary {
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
			if d, ok := r.store.local.Get(s.Number); ok {
				add("", d)
				in := &list[len(list)-1]
				in.Gateway, in.Rule = r.name, s.Rule
				in.Promised, in.Observed = dictionary.Ratio(s.Promised), dictionary.Ratio(s.Observed)
				if at := s.Version.At; !at.IsZero() {
					in.AnnouncedAt = &at
				}
			}
		}
	}
	for _, r := range p.gateways {
		if r.auto == nil {
			continue
		}
		for _, d := range r.store.local.All() {
			if !listed[d.Number()] {
				add("", d)
			}
		}
	}
	return list
}

// describeLearning lists the rules that wait for a dictionary, with the progress of its training.
func (p *Process) describeLearning() (list []admin.Learning) {
	for _, r := range p.gateways {
		if r.auto == nil {
			continue
		}
		for _, s := range r.auto.Status() {
			if s.Active && (s.Number == 0 || s.Step.Number > 0) {
				list = append(list, admin.Learning{
					Gateway: r.name, Rule: s.Rule, Samples: s.SampleValues, Wanted: s.WantedValues,
					Step: s.Step.Number, Steps: s.Step.Of, Trying: s.Step.Trying, Refused: s.NotWorth(),
				})
			}
		}
	}
	return markWaiting(list)
}

// markWaiting marks the rules that have enough samples but wait for another rule's training: only one dictionary
// is trained at a time.
func markWaiting(list []admin.Learning) []admin.Learning {
	if !slices.ContainsFunc(list, func(l admin.Learning) bool { return l.Step > 0 }) {
		return list
	}
	for i := range list {
		l := &list[i]
		l.Waiting = l.Step == 0 && l.Samples >= l.Wanted && !l.Refused
	}
	return list
}

func describeSetting(r *policy.Rule) string {
	switch {
	case r.Auto:
		return r.Setting.String() + " (auto)"
	case r.Observe:
		return r.Setting.String() + " (observe)"
	}
	return r.Setting.String()
}

// describeMatch returns a readable summary of what a rule covers: "menu:* · string · from 64".
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
