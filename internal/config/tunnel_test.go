package config

import (
	"strings"
	"testing"
)

func parseTunnel(t *testing.T, protocol, more string) (*Config, error) {
	t.Helper()
	text := "gateways:\n  - name: t\n    protocol: " + protocol + "\n    listen: 127.0.0.1:1\n    upstream: peer:9480\n"
	for line := range strings.Lines(more) {
		text += "    " + line
	}
	return Parse("cinch.yaml", []byte(text), nil)
}

func TestTunnelDefaults(t *testing.T) {
	for protocol, links := range map[string]int{Tunnel: 4, TunnelExit: 0} {
		c, err := parseTunnel(t, protocol, "")
		if err != nil {
			t.Fatal(err)
		}
		g := &c.Gateways[0]
		if s := g.TunnelSetting(); s.String() != "auto" || g.WindowLog() != 0 || g.SpareLinks() != links {
			t.Errorf("%s: %s, window %d, %d links", protocol, s, g.WindowLog(), g.SpareLinks())
		}
	}
	c, err := parseTunnel(t, Tunnel, "setting: zstd\nwindow: 1MiB\nhistory: 64MiB\nlinks: 0\n")
	if err != nil {
		t.Fatal(err)
	}
	g := &c.Gateways[0]
	if s := g.TunnelSetting(); s.String() != "zstd-3" || g.WindowLog() != 20 || g.SpareLinks() != 0 || g.History != 64<<20 {
		t.Errorf("%s, window %d, %d links, history %s", s, g.WindowLog(), g.SpareLinks(), g.History)
	}
	if c, err = parseTunnel(t, Tunnel, "enabled: false\nsetting: auto\n"); err != nil {
		t.Fatal(err)
	}
	if s := c.Gateways[0].TunnelSetting(); s.String() != "raw" {
		t.Errorf("not enabled, it sends %s", s)
	}
}

func TestTunnelProblems(t *testing.T) {
	for more, want := range map[string]string{
		"setting: zstd-10":         "zstd-1 to zstd-9",
		"setting: gzip-6":          "tunnels do not support gzip-6",
		"setting: zstd-3@0a1b2c3d": "tunnels do not support zstd-3@0a1b2c3d",
		"window: 3MiB":             "not a power of two",
		"window: 16MiB":            "not a power of two",
		"history: 1KiB":            "gateways[0].history",
		"links: -1":                "gateways[0].links",
		"rules: [{setting: raw}]":  "has no rules",
		"exclude: [x]":             "is only for stores",
		"max_streams: 5":           "is only for protocol: grpc",
		"upstream_tls: {ca: x}":    "does not use TLS",
	} {
		if _, err := parseTunnel(t, Tunnel, more+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", more, err)
		}
	}
	if _, err := parseTunnel(t, TunnelExit, "links: 3\n"); err == nil || !strings.Contains(err.Error(), "is only for protocol: tunnel") {
		t.Errorf("links of an exit: %v", err)
	}
	if _, err := parseTunnel(t, Redis, "setting: raw\n"); err == nil || !strings.Contains(err.Error(), "tunnel and tunnel-exit") {
		t.Errorf("a Redis gateway's setting: %v", err)
	}
}
