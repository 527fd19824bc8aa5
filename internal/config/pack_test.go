package config

import (
	"strings"
	"testing"
	"time"
)

func TestPack(t *testing.T) {
	with := func(pack string) string { return strings.Replace(small, "{name: a", "{pack: "+pack+", name: a", 1) }
	c := parse(t, with("{background: true, state: p.state}"))
	p := c.Packing(&c.Gateways[0])
	if !p.Background || p.Mode != PackSeal || p.Every != Duration(6*time.Hour) || p.KeysPerSecond != 2000 || p.BytesPerSecond != 10<<20 || p.Parallel != 1 {
		t.Errorf("defaults: %+v", p)
	}
	if !strings.HasSuffix(p.State, "p.state") {
		t.Errorf("state %q", p.State)
	}
	if p := c.Packing(&parse(t, with("{mode: estimate}")).Gateways[0]); p.Background {
		t.Error("it runs without being told to")
	}
	other := strings.Replace(with("{background: true}"), "protocol: redis", "protocol: grpc", 1)
	if _, err := Parse("cinch.yaml", []byte(other), nil); err == nil || !strings.Contains(err.Error(), "has no store to pack") {
		t.Errorf("pack of another protocol: %v", err)
	}
	tarantool := strings.NewReplacer("protocol: redis", "protocol: tarantool", "redis://", "tarantool://")
	for pack, want := range map[string]string{
		"{background: true}": "", "{skip_idle_below: 1m}": "pack.skip_idle_below: is only for Redis", "{skip_freq_above: 9}": "pack.skip_freq_above: is only for Redis",
	} {
		_, err := Parse("cinch.yaml", []byte(tarantool.Replace(with(pack))), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("Tarantool, %s: %v, want %q", pack, err, want)
		}
	}
	for pack, want := range map[string]string{
		"{mode: sael}":          `gateways[0].pack.mode: unknown value "sael": did you mean "seal"?`,
		"{every: 0s}":           "gateways[0].pack.every: is not above 0s",
		"{parallel: 0}":         "gateways[0].pack.parallel: 0 is not between 1 and 64",
		"{max_latency: -1s}":    "gateways[0].pack.max_latency: is negative",
		"{skip_idle: 1m}":       "gateways[0].pack.skip_idle: unknown key",
		"{background: yes}":     "gateways[0].pack.background: \"yes\" is neither true nor false",
		"{keys_per_second: -1}": "gateways[0].pack.keys_per_second: is negative",
		"{skip_idle_below: 1m, skip_freq_above: 9}": "gateways[0].pack.skip_freq_above: can't be combined with skip_idle_below",
	} {
		if _, err := Parse("cinch.yaml", []byte(with(pack)), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", pack, err, want)
		}
	}
}
