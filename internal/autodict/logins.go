package autodict

import (
	"maps"
	"slices"

	"github.com/cinch-layer/cinch/internal/policy"
)

// A dictionary shows pieces of the values that it was made of to every login whose values are sealed with it,
// so each login that writes under a rule has samples and a dictionary of its own, unless the rule
// says that they may be shared. There is one managed for each: the first is that of the server's
// default user, or of all, whose login is "". Others join when they first write.

// ruleLogin is a login under a rule.
type ruleLogin struct{ rule, login string }

// maxLogins have dictionaries of their own under one rule, so that neither memory nor training nor
// labels of metrics grow with the number of users. Values of others are sealed without.
const maxLogins = 8

// maxStrangers are remembered as such, and cost a look at a map; others wait for a lock.
const maxStrangers = 1024

// labelOf names a login under a rule in logs and metrics.
func labelOf(rule, login string) string {
	if login == "" {
		return rule
	}
	return rule + "@" + login
}

// loginsOf are those that have joined a rule before.
func loginsOf(known map[string]*managed, rule *policy.Rule) []string {
	logins := []string{""}
	for fingerprint, r := range known {
		if r.login != "" && !rule.Shared && fingerprint == fingerprintOf(rule, r.login) {
			logins = append(logins, r.login)
		}
	}
	slices.Sort(logins)
	return logins
}

// join makes place for a login that writes under a rule for the first time. It returns nil where
// there is none any more, or the rule is gone.
func (f *inForce) join(rule *policy.Rule, login string) *sampler {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := *f.samplers.Load()
	if s, known := before[ruleLogin{rule.Name, login}]; known {
		return s
	}
	ours := f.ours(rule.Name)
	if ours == nil || len(before) > maxStrangers {
		return nil
	}
	var s *sampler
	if others := f.of(ours); len(others) < maxLogins {
		r := f.managedFor(nil, ours, login)
		f.managed[r.fingerprint] = r
		f.divideMemory(ours)
		s = r.sampler
	} else {
		f.o.Log.Warn("too many logins write under a rule for each to have a dictionary; values of this one are sealed without",
			"rule", rule.Name, "login", login, "logins", maxLogins, "hint", "give it a rule of its own, or write share_samples: true if they may know each other's values")
	}
	next := maps.Clone(before)
	next[ruleLogin{rule.Name, login}] = s
	f.samplers.Store(&next)
	select {
	case f.joined <- struct{}{}:
	default:
	}
	return s
}

// Join has a login's values sampled, and finds what was announced for them, as if it had written under every rule.
func (f *inForce) Join(login string) {
	for _, rule := range f.Policy().Rules() {
		if rule.Auto && !rule.Shared {
			f.join(rule, login)
		}
	}
}

// ours is a managed rule as it was given: without dictionaries. f.mu is held.
func (f *inForce) ours(name string) *policy.Rule {
	for _, r := range f.managed {
		if r.rule().Name == name {
			return r.rule()
		}
	}
	return nil
}

// divideMemory has a rule's logins share what the rule may take. f.mu is held.
func (f *inForce) divideMemory(rule *policy.Rule) {
	all := f.of(rule)
	for _, r := range all {
		r.sampler.resize(f.rules.RuleMemory / len(all))
	}
}

// choiceFor is what a rule seals with. Values whose login is not known, as the packer finds them,
// get the default user's dictionary as long as no other login has written there. Whether others
// have before this gateway began is for the packer to find out. f.mu is held.
func (f *inForce) choiceFor(rule *policy.Rule) (c policy.Choice, ok bool) {
	all := f.of(rule)
	if len(all) == 0 {
		return c, false
	}
	logins := map[string]policy.Choice{}
	for _, r := range all {
		if r.current.dict != nil {
			logins[r.login] = r.current.policy()
		}
	}
	if len(all) == 1 { // the default user is always there
		c = logins[""]
	}
	if !rule.Shared {
		c.Logins = logins
	}
	return c, true
}
