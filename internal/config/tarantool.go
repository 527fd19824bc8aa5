package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/policy"
)

// TarantoolPort is the port of a Tarantool server that names none.
const TarantoolPort = "3301"

// What of SQL may go to spaces with rules, as sql has it.
const (
	SQLRefuse     = "refuse"
	SQLProjection = "projection"
	SQLPass       = "pass"
)

// HasStore reports that the gateway's rules are for values in a store, not for messages.
func (g *Gateway) HasStore() bool { return g.Protocol == Redis || g.Protocol == Tarantool }

// TarantoolGateway is a gateway for Tarantool with the defaults of everything but its
// addresses and its rules.
func TarantoolGateway(name, listen, upstream string, rules []Rule) Gateway {
	g := RedisGateway(name, listen, upstream, rules)
	g.Protocol = Tarantool
	return g
}

// tarantool checks the keys that only one kind of gateway has.
func (v *validator) tarantool(g *Gateway, path string) {
	if g.Protocol != Tarantool {
		v.onlyTarantool(g, path)
		return
	}
	if g.SQL != "" {
		v.oneOf(path+".sql", g.SQL, SQLRefuse, SQLProjection, SQLPass)
	}
	for i := range g.Rules {
		v.tarantoolRule(&g.Rules[i], fmt.Sprintf("%s.rules[%d]", path, i))
	}
}

func (v *validator) onlyTarantool(g *Gateway, path string) {
	only := func(key string, given bool) {
		if given {
			v.add(path+"."+key, "", "is for protocol: tarantool")
		}
	}
	only("sql", g.SQL != "")
	for i := range g.Rules {
		r := &g.Rules[i]
		only(fmt.Sprintf("rules[%d].space", i), r.TupleSpace != "")
		only(fmt.Sprintf("rules[%d].function", i), r.Function != "")
		only(fmt.Sprintf("rules[%d].argument", i), r.Argument != "")
	}
}

func (v *validator) tarantoolRule(r *Rule, path string) {
	var other Rule
	other.setDefaults()
	not := func(key string, given bool) {
		if given {
			v.add(path+"."+key, "write space and field, or function and argument", "is not for protocol: tarantool")
		}
	}
	not("key", r.Key != other.Key)
	not("db", r.DB != nil)
	not("type", !slices.Equal(r.Type, other.Type))
	not("no_sample", len(r.NoSample) > 0)
	v.glob(path+".space", r.TupleSpace)
	v.glob(path+".function", r.Function)
	switch {
	case r.Function == "" && r.Argument != "":
		v.add(path+".argument", "write the function's name as well", "belongs to a function")
	case r.Function != "" && (r.TupleSpace != "" || r.Field != ""):
		v.add(path+".function", "write argument: 2, or 2.body for a field of it", "excludes space and field")
	case r.Function != "" && !isArgument(r.Argument):
		v.add(path+".argument", "write 2 for the second one, 2.3 or 2.body for a field of it", "%q is no argument", r.Argument)
	}
}

// isArgument accepts "2", "2.3" and "2.body".
func isArgument(text string) bool {
	number, inside, dot := strings.Cut(text, ".")
	n, err := strconv.Atoi(number)
	return err == nil && n > 0 && (!dot || inside != "")
}

// tarantool makes p a rule for fields of tuples, or for an argument of a function.
func (r *Rule) tarantool(p *policy.Rule) {
	if r.Function != "" {
		p.Types, p.Key, p.Field = policy.Argument, r.Function, r.Argument
		return
	}
	p.Types, p.Key = policy.Tuple, cmp.Or(r.TupleSpace, "*")
}
