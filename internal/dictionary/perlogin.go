package dictionary

import (
	"maps"
	"slices"

	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
	"github.com/cinch-layer/cinch/internal/policy"
)

// A dictionary contains pieces of the values that it was trained on, and shows them to every login whose values are
// compressed with it. So each login that writes under a rule has its own samples and dictionary, and its own
// managedRule, unless the rule allows sharing. The first login is "": the server's default user, or all users if
// they share. Other logins join when they first write.

// ruleLogin is a login under a rule.
type ruleLogin struct{ rule, login string }

// MaxLogins limits the logins with their own dictionaries under one rule, so that memory, training and metric labels
// don't grow with the number of users. Values of other logins are compressed without a dictionary.
const MaxLogins = 8

// maxOtherLogins limits the known logins without a dictionary, under all rules together. Each value of a known login
// costs a map lookup; each value of any further login takes a lock.
const maxOtherLogins = 1024

// Label names a login under a rule in logs, metrics and Status.
func Label(rule, login string) string {
	if login == "" {
		return rule
	}
	return rule + "@" + login
}

// loginsOf returns the logins that joined a rule before, and "".
func loginsOf(known map[string]*managedRule, rule *policy.Rule) []string {
	logins := []string{""}
	for fingerprint, r := range known {
		if r.login != "" && !rule.Shared && fingerprint == fingerprintOf(rule, r.login) {
			logins = append(logins, r.login)
		}
	}
	slices.Sort(logins)
	return logins
}

// join adds a login that writes under a rule for the first time. It returns nil if there are too many logins,
// or if the rule was removed.
func (f *activePolicy) join(rule *policy.Rule, login string) *reservoir.Sampler {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := *f.samplers.Load()
	if s, known := before[ruleLogin{rule.Name, login}]; known {
		return s
	}
	ours := f.findRule(rule.Name)
	if ours == nil {
		return nil
	}
	var s *reservoir.Sampler
	if others := f.managedFor(ours); len(others) < MaxLogins {
		r := f.newOrKnown(nil, ours, login)
		f.managed[r.fingerprint] = r
		f.divideMemory(ours)
		s = r.sampler
	} else if len(before)-len(f.managed) >= maxOtherLogins { // before contains the logins of managed too
		return nil
	} else {
		f.o.Log.Warn("too many logins write under a rule for each to get a dictionary; this login's values are compressed without one",
			"rule", rule.Name, "login", login, "logins", MaxLogins, "hint", "give the login its own rule, or set share_samples: true if the logins may know each other's values")
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

// Join adds a login to every rule, as if it had written there: its values are sampled, and dictionaries
// announced for them are found.
func (f *activePolicy) Join(login string) {
	for _, rule := range f.Policy().Rules() {
		if rule.Auto && !rule.Shared {
			f.join(rule, login)
		}
	}
}

// findRule returns a managed rule as it was given, without dictionaries. f.mu must be held.
func (f *activePolicy) findRule(name string) *policy.Rule {
	for _, r := range f.managed {
		if r.rule().Name == name {
			return r.rule()
		}
	}
	return nil
}

// divideMemory divides a rule's sample memory among its logins. f.mu must be held.
func (f *activePolicy) divideMemory(rule *policy.Rule) {
	all := f.managedFor(rule)
	for _, r := range all {
		r.sampler.Resize(f.rules.RuleMemory / len(all))
	}
}

// choiceFor returns the dictionaries for a rule. Values of an unknown login, as the packer finds them, get
// the default user's dictionary while no other login has written under the rule. Whether others wrote before
// this gateway started is for the packer to check. f.mu must be held.
func (f *activePolicy) choiceFor(rule *policy.Rule) (c policy.Choice, ok bool) {
	all := f.managedFor(rule)
	if len(all) == 0 {
		return c, false
	}
	logins := map[string]policy.Choice{}
	for _, r := range all {
		if r.current.dict != nil {
			logins[r.login] = r.current.policy()
		}
	}
	if len(all) == 1 { // the default user's is always there
		c = logins[""]
	}
	if !rule.Shared {
		c.Logins = logins
	}
	return c, true
}
