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
		"link: {setting: zstd-1}\n    peers: true": "zstd-1",
		"peers: true": "zstd-3",
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
		"history: client":               "history: all",
		"history: client,":              "history: none,", // which is for MongoDB
		"history: client, window: 1MiB": "window: 1MiB",
		"1MiB":                          "1000000",
		"64MiB":                         "1KiB",
		"zstd-6":                        "zstd-19",
		"protocol: grpc":                "protocol: redis",
		"zstd-6}":                       "cinch-proto}",
	} {
		if _, err := Parse("f", []byte(strings.Replace(near, old, bad, 1)), nil); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
