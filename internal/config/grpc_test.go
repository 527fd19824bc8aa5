package config

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

func TestGRPC(t *testing.T) {
	const good = `gateways:
  - name: a
    protocol: grpc
    listen: 127.0.0.1:1
    upstream: grpcs://host:2
    upstream_encodings: [zstd, gzip]
    window: 64KiB
    rules:
      - {service: "cortex.*", method: [Push, "Query*"], direction: request, setting: zstd-1, min_size: 1KiB}
      - {setting: raw}
`
	c, err := Parse("f", []byte(good), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Gateways[0].Messages(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := p.Lookup(policy.MessageAddress{Space: []byte("cortex.Ingester"), Command: []byte("QueryStream"), Direction: policy.Request, Size: 1024})
	if r == nil || r.Setting.String() != "zstd-1" || r.MinGain != 0.1 {
		t.Errorf("%+v", r)
	}
	for bad, want := range map[string]string{
		strings.Replace(good, "gzip]", "zlib]", 1):                                  "unknown encoding",
		strings.Replace(good, "setting: raw", "setting: zlib-1", 1):                 "gRPC does not support zlib-1",
		strings.Replace(good, "direction: request", "key: x", 1):                    "is only for stores",
		strings.Replace(good, "direction: request", "type: hash", 1):                "rules[0].type",
		strings.Replace(good, "host:2", "host", 1):                                  "no port",
		strings.Replace(good, "window: 64KiB", "window: 1KiB", 1):                   "is not between",
		strings.Replace(good, "direction: request", "direction: up", 1):             "unknown direction",
		strings.Replace(good, "grpcs:", "rediss:", 1):                               "rediss:// is only for protocol: redis",
		strings.Replace(good, "grpcs://", "grpcs://me:secret@", 1):                  "has credentials: leave them out",
		strings.Replace(good, "host:2", "host:2/x", 1):                              "has a path after the host: write grpc://",
		strings.Replace(good, `"cortex.*"`, "/cortex.Ingester", 1):                  "has a slash in it: for /cortex",
		strings.Replace(good, "[Push", "[/cortex.Ingester/Push", 1):                 "begins with a slash: for /cortex",
		strings.Replace(good, "grpc\n", "redis\n", 1):                               "grpcs:// is only for protocol: grpc",
		strings.Replace(good, "window: 64KiB", "window: 64MiB", 1):                  "64MiB is not between 16KiB and 16MiB: leave it out",
		strings.NewReplacer("grpc\n", "redis\n", "grpcs:", "rediss:").Replace(good): "is only for protocol: grpc",
	} {
		if _, err := Parse("f", []byte(bad), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// cinch-proto is for gRPC gateways only.
func TestProtoSetting(t *testing.T) {
	const grpc = `gateways:
  - name: a
    protocol: grpc
    listen: 127.0.0.1:1
    upstream: grpc://host:2
    upstream_encodings: [cinch-proto]
    rules:
      - {setting: cinch-proto}
`
	c, err := Parse("f", []byte(grpc), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Gateways[0].Rules[0].Setting.String(); s != "cinch-proto" {
		t.Errorf("printed as %s", s)
	}
	p, err := c.Gateways[0].Messages(nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Lookup(policy.MessageAddress{Space: []byte("a.B"), Command: []byte("C"), Direction: policy.Reply, Size: 1024}); r == nil || r.Setting != (codec.Setting{Codec: codec.Proto}) {
		t.Errorf("%+v", r)
	}
	if c, err := Parse("f", []byte(strings.Replace(grpc, "setting: cinch-proto", "setting: cinch-proto-raw", 1)), nil); err != nil {
		t.Error(err)
	} else if s := c.Gateways[0].Rules[0].Setting; s.Setting != (codec.Setting{Codec: codec.Proto, Level: codec.Stored}) || s.String() != "cinch-proto-raw" {
		t.Errorf("%+v, printed as %s", s, s)
	}
	redis := strings.NewReplacer("protocol: grpc", "protocol: redis", "grpc://", "redis://", "    upstream_encodings: [cinch-proto]\n", "").Replace(grpc)
	for bad, want := range map[string]string{
		redis: "cinch-proto is only for protocol: grpc and http: write zstd-3",
		strings.NewReplacer("protocol: redis", "protocol: mongo", "redis://", "mongodb://").Replace(redis):       "does not support cinch-proto",
		strings.NewReplacer("protocol: redis", "protocol: tarantool", "redis://", "tarantool://").Replace(redis): "cinch-proto is only for protocol: grpc",
		strings.Replace(grpc, "setting: cinch-proto", "setting: cinch-proto-1", 1):                               "unknown codec",
		strings.Replace(grpc, "setting: cinch-proto", "setting: cinch-proto, dictionary: auto", 1):               "cinch-proto does not support dictionaries",
	} {
		if _, err := Parse("f", []byte(bad), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// Without a file, the option peers=true of the URL says that clients may be gateways.
func TestPairsWithoutFile(t *testing.T) {
	for url, want := range map[string]string{
		"grpc://a:1?peers=true":  "grpc://a:1",
		"grpc://a:1/?peers=true": "grpc://a:1",
		"grpc://a:1":             "",
	} {
		g := GRPCGateway("grpc", "127.0.0.1:2", url, []Rule{DefaultGRPCRule()})
		if g.Peers != (want != "") || g.Peers && g.Upstream != want || !g.Peers && g.Upstream != url {
			t.Errorf("%s: %+v", url, g)
		}
		c := Config{Gateways: []Gateway{g}}
		if p, err := c.Gateways[0].Messages(nil); err != nil || !p.Rules()[0].AutoDict {
			t.Errorf("%s: %v, %v", url, p, err)
		}
	}
}

func TestPairs(t *testing.T) {
	const good = `dictionaries:
  - {name: orders, file: orders.dict}
gateways:
  - name: a
    protocol: grpc
    listen: 127.0.0.1:1
    upstream: grpc://host:2
    peers: true
    sample: true
    rules:
      - {service: small, setting: zstd-3, dictionary: auto}
      - {setting: zstd-3, dictionary: orders}
`
	c, err := Parse("f", []byte(good), nil)
	if err != nil {
		t.Fatal(err)
	}
	file, _ := codec.NewDict([]byte("what orders have in common"))
	p, err := c.Gateways[0].Messages(map[string]*codec.Dict{"orders": file})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Rules()
	if !r[0].AutoDict || r[0].Dict != nil || r[1].AutoDict || r[1].Dict != file || r[1].Setting.Dict != 0 {
		t.Errorf("%+v, %+v", r[0], r[1])
	}
	if _, err := c.Gateways[0].Messages(nil); err == nil {
		t.Error("a dictionary that is not there")
	}
	large, _ := codec.NewDict(make([]byte, maxPairDictionary+1))
	if _, err := c.Gateways[0].Messages(map[string]*codec.Dict{"orders": large}); err == nil {
		t.Error("a dictionary that other gateways don't take")
	}
	for bad, want := range map[string]string{
		strings.Replace(good, "zstd-3, dictionary: auto", "s2, dictionary: auto", 1):                      "s2 does not support dictionaries",
		strings.Replace(good, "dictionary: auto", "dictionary: others", 1):                                `unknown dictionary "others"`,
		strings.Replace(good, "dictionary: auto", "dictionary: auto, no_sample: [x]", 1):                  "is only for stores",
		strings.NewReplacer("grpc\n", "redis\n", "grpc:", "redis:", "service: small, ", "").Replace(good): "peers: is only for protocol: grpc, http and mongo",
	} {
		if _, err := Parse("f", []byte(bad), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	again := *c
	again.Gateways = []Gateway{c.Gateways[0]}
	again.Gateways[0].Peers, again.Gateways[0].Sample = false, false
	if keys := strings.Join(Frozen(c, &again), " "); keys != "gateways[a].peers gateways[a].sample" {
		t.Error(keys)
	}
}

// Message rules as printed by config show have no keys of Redis rules, and parse to the same rules.
func TestShownRulesOfMessages(t *testing.T) {
	c, err := Parse("f", []byte(`
gateways:
  - name: a
    protocol: grpc
    listen: :1
    upstream: grpc://h:2
    rules: [{service: s, setting: zstd}]
  - name: b
    protocol: redis
    listen: :2
    upstream: redis://h:2
    rules: [{setting: zstd-3}]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	messages, store, _ := strings.Cut(string(text), "name: b")
	if strings.Contains(messages, "key:") || strings.Contains(messages, "type:") || !strings.Contains(store, "key:") || !strings.Contains(store, "type:") {
		t.Errorf("it prints\n%s", text)
	}
	again, err := Parse("f", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if twice, _ := again.YAML(); string(twice) != string(text) {
		t.Errorf("%s\nbecomes\n%s", text, twice)
	}
}
