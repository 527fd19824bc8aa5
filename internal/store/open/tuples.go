package open

import (
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/pack"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/tarantool"
)

// Tuples are a Tarantool server that is walked over.
type Tuples struct {
	*tarantool.Store
	Conn *tarantool.Conn
}

// TarantoolOptions are those of a connection that walks over a Tarantool server.
func TarantoolOptions(up gateway.Upstream) tarantool.Options {
	return tarantool.Options{Dial: up.Dial, User: up.User, Password: up.Password, Timeout: WalkTimeout}
}

// SealsField reports that some rule seals a field, and nothing in the server computes on it.
func SealsField(rules *policy.Policy) func(*tarantool.Space, tarantool.Field) bool {
	return func(s *tarantool.Space, f tarantool.Field) bool {
		for _, r := range s.Rules(rules, f) {
			if !r.Raw() {
				return s.Touched(f.Number, TrustsField(rules)(s, f)) == ""
			}
		}
		return false
	}
}

// TrustsField reports that a rule vouches for a field.
func TrustsField(rules *policy.Policy) func(*tarantool.Space, tarantool.Field) bool {
	return func(s *tarantool.Space, f tarantool.Field) bool {
		return tarantool.Trusted(s.Rules(rules, f))
	}
}

// Targets are what a walk goes through.
func (t *Tuples) Targets() []pack.Target {
	var targets []pack.Target
	for _, s := range t.Spaces() {
		targets = append(targets, pack.Target{Node: t, Space: s})
	}
	return targets
}

// Rules finds the rule for a value by its space's and field's names.
func (t *Tuples) Rules(p *policy.Policy) func(string, *store.Value, int) *policy.Rule {
	type place struct{ space, field string }
	covering := make(map[place][]*policy.Rule)
	for _, s := range t.Spaces() {
		for _, f := range s.Space().Fields {
			covering[place{s.DB(), s.Space().FieldName(f.Number)}] = s.Space().Rules(p, f)
		}
	}
	return func(space string, v *store.Value, size int) *policy.Rule {
		return tarantool.First(covering[place{space, string(v.Field)}], size)
	}
}
