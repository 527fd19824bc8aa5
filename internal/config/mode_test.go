package config

import (
	"strings"
	"testing"
)

func TestRuleMode(t *testing.T) {
	for text, want := range map[string]string{
		"mode: observe, setting: zstd-3":                   "",
		"mode: seal, setting: zstd-3":                      "",
		"mode: watch, setting: zstd-3":                     `rules[0].mode: unknown value "watch"`,
		"mode: observe, setting: raw":                      "rules[0].setting: raw has nothing to observe",
		"mode: observe, setting: zstd-3, dictionary: auto": "rules[0].dictionary: auto stores dictionaries in the upstream",
	} {
		file := "gateways:\n  - {name: g, protocol: redis, listen: ':1', upstream: 'redis://h', rules: [{" + text + "}]}\n"
		c, err := Parse("cinch.yaml", []byte(file), nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
			continue
		}
		if err != nil {
			continue
		}
		p, err := c.Gateways[0].Policy(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Rules()[0].Observe; got != strings.Contains(text, "observe") {
			t.Errorf("%s: observes: %v", text, got)
		}
	}
}

func TestModeIsForRedis(t *testing.T) {
	for protocol, upstream := range map[string]string{"grpc": "grpc://h:1", "mongo": "mongodb://h", "tarantool": "tarantool://h:1"} {
		file := "gateways:\n  - {name: g, protocol: " + protocol + ", listen: ':1', upstream: '" + upstream + "', rules: [{mode: observe, setting: zstd-3}]}\n"
		if _, err := Parse("cinch.yaml", []byte(file), nil); err == nil || !strings.Contains(err.Error(), "rules[0].mode:") {
			t.Errorf("%s: %v", protocol, err)
		}
	}
}
