package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/policy/budget"
)

func effortFile(protocol, keys string) string {
	upstream := map[string]string{Tunnel: "h:1", TunnelExit: "h:1"}[protocol]
	if upstream == "" {
		upstream = map[string]string{Mongo: "mongodb"}[protocol]
		if upstream == "" {
			upstream = protocol
		}
		upstream += "://h:1"
	}
	return fmt.Sprintf("gateways:\n  - {name: g, protocol: %s, listen: \"127.0.0.1:6000\", upstream: %q, %s}\n", protocol, upstream, keys)
}

func TestBudgets(t *testing.T) {
	for text, want := range map[string]float64{"20%": 0.2, "0.2": 0.2, "'20 %'": 0.2, "150%": 1.5, "2": 2, "0.001": 0.001, "256": 256} {
		cfg, err := Parse("f", []byte(effortFile(Redis, "cpu_budget: "+text+", latency_budget: 500us")), nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got := cfg.Gateways[0].Budgets()
		if got.Cores < want-1e-12 || got.Cores > want+1e-12 || got.Latency != 500*time.Microsecond {
			t.Errorf("%s: %+v", text, got)
		}
		again, _ := cfg.Gateways[0].CPUBudget.MarshalText()
		var back Cores
		if err := back.UnmarshalText(again); err != nil || back != cfg.Gateways[0].CPUBudget {
			t.Errorf("%s is shown as %s, which reads as %v, %v", text, again, back, err)
		}
	}
	for _, protocol := range []string{GRPC, HTTP, Mongo} {
		for _, keys := range []string{"peers: true", "link: {history: none}"} {
			if _, err := Parse("f", []byte(effortFile(protocol, "cpu_budget: 20%, "+keys)), nil); err != nil {
				t.Error(err)
			}
		}
	}
	cfg, err := Parse("f", []byte(effortFile(Tarantool, "max_connections: 5")), nil)
	if err != nil || cfg.Gateways[0].Budgets() != (budget.Limits{}) {
		t.Errorf("without budgets: %+v, %v", cfg.Gateways[0].Budgets(), err)
	}
}

func TestBudgetsThatCannotBe(t *testing.T) {
	for _, c := range []struct{ protocol, keys, want string }{
		{Redis, "cpu_budget: 0", "cpu_budget: is not between 0.1% of one core and 256 cores: 20% is a fifth of one core and 2 are two cores"},
		{Redis, "cpu_budget: 0.05%", "cpu_budget: is not between"},
		{Redis, "cpu_budget: 300", "cpu_budget: is not between"},
		{Redis, "cpu_budget: -1", "cpu_budget: is not between"},
		{Redis, "cpu_budget: NaN", `"NaN" is not a share of a core: write 20% or 0.2`},
		{Redis, "cpu_budget: a lot", `"a lot" is not a share of a core`},
		{Redis, "latency_budget: 10", `"10" is not a duration`},
		{Redis, "latency_budget: 0s", "latency_budget: is not between 1us and 10s"},
		{Tarantool, "latency_budget: 500ns", "latency_budget: is not between 1us and 10s: for example 500us"},
		{Tarantool, "latency_budget: -1s", "latency_budget: is not between"},
		{Tunnel, "cpu_budget: 20%", "cpu_budget: a tunnel compresses connections as a whole, at one setting: choose a cheaper setting"},
		{TunnelExit, "latency_budget: 1ms", "latency_budget: a tunnel compresses"},
		{Postgres, "cpu_budget: 20%", "cpu_budget: a gateway for PostgreSQL compresses nothing: leave it out"},
		{GRPC, "cpu_budget: 20%, link: {history: client}", "cpu_budget: a link compresses connections as a whole, at one setting: drop link"},
	} {
		_, err := Parse("f", []byte(effortFile(c.protocol, c.keys)), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v", c.protocol, c.keys, err)
		}
	}
}
