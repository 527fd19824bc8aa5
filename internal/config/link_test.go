package config

import (
	"strings"
	"testing"
)

func TestLink(t *testing.T) {
	const near = `gateways:
  - name: a
    protocol: grpc
    listen: 127.0.0.1:1
    upstream: grpc://host:2
    link: {history: client, window: 1MiB, memory: 64MiB, setting: zstd-6}
`
	c, err := Parse("f", []byte(near), nil)
	if err != nil {
		t.Fatal(err)
	}
	g := &c.Gateways[0]
	if l, s, w := g.LinkOptions(); l.History != ClientHistory || s.String() != "zstd-6" || w != 20 || l.Memory != 64<<20 || !g.WantsLink() {
		t.Errorf("%+v %s %d", l, s, w)
	}
	text, err := c.YAML()
	if err != nil || !strings.Contains(string(text), "history: client") {
		t.Errorf("%v\n%s", err, text)
	}
	for text, want := range map[string]string{
		"link: {history: shared}":                  "zstd-3",
		"link: {history: shared, setting: zstd}":   "zstd-3",
		"link: {history: client, setting: auto}":   "auto",
		"link: {history: client, setting: raw}":    "raw",
		"link: {history: none}":                    "zstd-3",
		"link: {setting: zstd-1}":                  "zstd-1",
		"link: {setting: zstd-1}\n    peers: true": "zstd-1",
		"peers: true":                              "zstd-3",
		"":                                         "zstd-3",
	} {
		c, err := Parse("f", []byte(strings.Replace(near, "link: {history: client, window: 1MiB, memory: 64MiB, setting: zstd-6}", text, 1)), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if _, s, w := c.Gateways[0].LinkOptions(); s.String() != want || w != 0 {
			t.Errorf("%s: %s, window %d", text, s, w)
		}
	}
	for old, bad := range map[string]string{
		"history: client": "history: all",
		"1MiB":            "1000000",
		"64MiB":           "1KiB",
		"zstd-6":          "zstd-19",
		"protocol: grpc":  "protocol: redis",
		"zstd-6}":         "cinch-proto}",
	} {
		if _, err := Parse("f", []byte(strings.Replace(near, old, bad, 1)), nil); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// Gateways for messages use links unless link.history is none. Clients may open links in any case if they are gateways.
func TestLinksByDefault(t *testing.T) {
	for protocol, upstream := range map[string]string{GRPC: "grpc://host:2", HTTP: "http://host", Mongo: "mongodb://host"} {
		for keys, want := range map[string]bool{
			"":                                       true,
			"link: {}":                               true,
			"link: {window: 1MiB}":                   true,
			"link: {history: client}":                true,
			"link: {history: shared}":                true,
			"peers: true":                            true,
			"link: {history: none}":                  false,
			"link: {history: none, memory: 1MiB}":    false,
			"link: {history: none}\n    peers: true": true,
		} {
			c, err := Parse("f", []byte("gateways:\n  - name: a\n    protocol: "+protocol+"\n    listen: 127.0.0.1:1\n    upstream: "+upstream+"\n    "+keys+"\n"), nil)
			if err != nil {
				t.Errorf("%s, %s: %v", protocol, keys, err)
			} else if got := c.Gateways[0].WantsLink(); got != want {
				t.Errorf("%s, %s: links are used: %v", protocol, keys, got)
			}
		}
	}
}
