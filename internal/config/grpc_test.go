package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
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
	p, err := c.Gateways[0].Messages()
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

// cinch-proto is only for gRPC and HTTP gateways.
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
	p, err := c.Gateways[0].Messages()
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
		strings.Replace(grpc, "setting: cinch-proto", "setting: cinch-proto, dictionary: auto", 1):               "rules[0].dictionary: is only for stores",
	} {
		if _, err := Parse("f", []byte(bad), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// Without a file, options of the URL stand for peers and link.history.
func TestGRPCWithoutFile(t *testing.T) {
	for url, want := range map[string]struct {
		upstream, history string
		peers             bool
	}{
		"grpc://a:1":                              {"grpc://a:1", "", false},
		"grpc://a:1/":                             {"grpc://a:1/", "", false},
		"grpc://a:1?peers=true":                   {"grpc://a:1", "", true},
		"grpc://a:1/?peers=true":                  {"grpc://a:1", "", true},
		"grpcs://a:1?history=none":                {"grpcs://a:1", NoHistory, false},
		"grpc://a:1/?history=client":              {"grpc://a:1", ClientHistory, false},
		"grpc://a:1?history=shared":               {"grpc://a:1", SharedHistory, false},
		"grpc://a:1?peers=true&history=shared":    {"grpc://a:1", SharedHistory, true},
		"grpc://a:1?history=none&peers=true":      {"grpc://a:1", NoHistory, true},
		"grpc://a:1?peers=false":                  {"grpc://a:1?peers=false", "", false},
		"grpc://a:1?history=none&sample=true":     {"grpc://a:1?sample=true", NoHistory, false},
		"grpc://a:1?standby=b:1":                  {"grpc://a:1?standby=b:1", "", false},
		"grpc://a:1?peers=true&standby=b:1":       {"grpc://a:1?peers=true&standby=b:1", "", true},
		"grpc://a:1?standby=b:1,c:1&history=none": {"grpc://a:1?standby=b:1,c:1&history=none", NoHistory, false},
	} {
		g := GRPCGateway("grpc", "127.0.0.1:2", url, []Rule{DefaultGRPCRule()})
		history := ""
		if g.Link != nil {
			history = g.Link.History
		}
		if g.Protocol != GRPC || g.Upstream != want.upstream || history != want.history || g.Peers != want.peers {
			t.Errorf("%s: %+v", url, g)
		}
		c := Config{Gateways: []Gateway{g}}
		if p, err := c.Gateways[0].Messages(); err != nil || p.Rules()[0].Setting != (codec.Setting{Codec: codec.Zstd}) {
			t.Errorf("%s: %v, %v", url, p, err)
		}
	}
	for url, want := range map[string]string{
		"grpc://a:1?peers=true&history=client": "",
		"grpc://a:1?history=all":               `link.history: unknown value "all"`,
		"grpc://a:1?peers=false":               "upstream: ",
		"grpc://a:1?standby=b:1":               "upstream: ",
		"grpc://a:1?peers=true&standby=b:1":    "upstream: ",
	} {
		_, err := Parse("f", nil, []Gateway{GRPCGateway("grpc", "127.0.0.1:2", url, []Rule{DefaultGRPCRule()})})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", url, want, err)
		}
	}
}

func TestPeers(t *testing.T) {
	const good = `gateways:
  - name: a
    protocol: grpc
    listen: 127.0.0.1:1
    upstream: grpc://host:2
    peers: true
    sample: true
    rules:
      - {service: small, setting: zstd-3}
`
	c, err := Parse("f", []byte(good), nil)
	if err != nil {
		t.Fatal(err)
	}
	for bad, want := range map[string]string{
		strings.Replace(good, "zstd-3", "zstd-3, no_sample: [x]", 1):                                      "is only for stores",
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

// Rules for messages have no dictionaries.
func TestMessagesHaveNoDictionaries(t *testing.T) {
	for protocol, upstream := range map[string]string{GRPC: "grpc://host:2", HTTP: "http://host", Mongo: "mongodb://host"} {
		for _, dictionary := range []string{"auto", "orders"} {
			_, err := Parse("f", []byte(`dictionaries:
  - {name: orders, file: orders.dict}
gateways:
  - name: a
    protocol: `+protocol+`
    listen: 127.0.0.1:1
    upstream: `+upstream+`
    rules: [{setting: zstd-3, dictionary: `+dictionary+`}]
`), nil)
			if err == nil || !strings.Contains(err.Error(), "rules[0].dictionary: is only for stores: "+"leave it out: between two gateways a link compresses messages with those before") {
				t.Errorf("%s, %s: %v", protocol, dictionary, err)
			}
		}
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

// A new codec for values is not used for gRPC messages before isEncoding lists it, and not on links before isPiece
// lists it.
func TestCodecsOfValuesAlone(t *testing.T) {
	const fresh = codec.ID(15) // an unused number
	s := &Setting{Setting: codec.Setting{Codec: fresh}}
	for want, check := range map[string]func(*validator){
		"tunnels do not support " + s.String():   func(v *validator) { v.tunnelSetting(s, "setting") },
		"gRPC does not support " + s.String():    func(v *validator) { v.grpcRule(&Rule{Setting: s}, "rule") },
		"MongoDB does not support " + s.String(): func(v *validator) { v.mongoRule(&Rule{Setting: s}, "rule") },
	} {
		v := validator{problems{c: Default()}}
		check(&v)
		if !slices.ContainsFunc(v.list, func(p Problem) bool { return p.Text == want }) {
			t.Errorf("no problem says %q: %v", want, v.list)
		}
	}
}

// isEncoding and codec/grpccodec have the same codecs.
func TestEncodingsAreThoseOfGRPCCodec(t *testing.T) {
	for id := codec.Raw; id <= codec.Proto; id++ {
		if want := slices.Contains(grpccodec.Names(), id.String()); isEncoding(id) != want {
			t.Errorf("%s is an encoding for isEncoding: %v, for grpccodec.Names: %v", id, isEncoding(id), want)
		}
	}
}
