package config

import (
	"time"

	"github.com/cinch-layer/cinch/internal/policy/budget"
)

// Bounds of budgets.
const (
	minCPUBudget = Cores(0.001)
	maxCPUBudget = Cores(256)

	minLatencyBudget = Duration(time.Microsecond)
	maxLatencyBudget = Duration(10 * time.Second)
)

// Budgets returns the gateway's limits on the cost of compressing.
func (g *Gateway) Budgets() budget.Limits {
	return budget.Limits{Cores: float64(g.CPUBudget), Latency: time.Duration(g.LatencyBudget)}
}

// budgetsUnsupported returns why budgets don't apply to a gateway, and what to do instead; "" if they apply.
func (g *Gateway) budgetsUnsupported() (why, hint string) {
	switch g.Protocol {
	case Postgres:
		return "a gateway for PostgreSQL compresses nothing", "leave it out"
	case Tunnel, TunnelExit:
		return "a tunnel compresses connections as a whole, at one setting", "choose a cheaper setting, such as lz4, or auto, which measures"
	}
	if g.Link != nil && g.Link.History != NoHistory {
		return "a link compresses connections as a whole, at one setting", "drop link, or choose a cheaper setting for it, such as lz4"
	}
	return "", ""
}

// budgets checks the budgets for compressing.
func (v *validator) budgets(g *Gateway, path string) {
	check := func(key string, given, fits bool, hint, bounds string) {
		if !given {
			return
		}
		if why, instead := g.budgetsUnsupported(); why != "" {
			v.add(path+"."+key, instead, "%s", why)
		} else if !fits {
			v.add(path+"."+key, hint, "is not between %s", bounds)
		}
	}
	check("cpu_budget", v.isSet(path+".cpu_budget", g.CPUBudget != 0), g.CPUBudget >= minCPUBudget && g.CPUBudget <= maxCPUBudget,
		"20% is a fifth of one core and 2 are two cores; leave it out for no limit", "0.1% of one core and 256 cores")
	check("latency_budget", v.isSet(path+".latency_budget", g.LatencyBudget != 0), g.LatencyBudget >= minLatencyBudget && g.LatencyBudget <= maxLatencyBudget,
		"for example 500us; leave it out for no limit", "1us and 10s")
}

// isSet reports whether a key is in the file, even with its zero value, or has a nonzero value from elsewhere.
func (v *validator) isSet(path string, set bool) bool {
	_, written := v.c.lines[path]
	return set || written
}
