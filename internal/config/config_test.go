package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

const full = `
admin: {listen: 127.0.0.1:9999}
log: {level: debug, format: json}
memory: {budget: 1GiB}
zstd: go
drain_timeout: 1m30s
dictionaries:
  - {name: orders, file: orders.dict}
gateways:
  - name: cache
    protocol: redis
    listen: unix:/run/cinch.sock
    upstream: rediss://gw:s3cret@db.example:6390
    tls: {cert: c.pem, key: k.pem, client_ca: ca.pem}
    upstream_tls: {ca: up.pem, server_name: db}
    enabled: false
    max_seal: 16MiB
    max_connections: 50
    exclude: ["bull:*"]
    rules:
      - name: menus
        key: "menu:*"
        db: 0
        type: string
        min_size: 128
        max_size: 1MiB
        min_gain: 12.5%
        setting: zstd-3
        dictionary: orders
      - setting: raw
      - {key: "doc:*", field: "body*", type: [hash, stream], setting: lz4, min_gain: 0%, min_size: 0}
`

func parse(t *testing.T, text string, overrides ...Override) *Config {
	t.Helper()
	c, err := Parse("dir/cinch.yaml", []byte(text), nil, overrides...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseAndPolicy(t *testing.T) {
	c := parse(t, full)
	g := c.Gateway("cache")
	if c.Memory.Budget != 1<<30 || time.Duration(c.DrainTimeout) != 90*time.Second || g.MaxSeal != 16<<20 || g.Enabled {
		t.Errorf("wrong values: %+v", c)
	}
	if g.TLS.Cert != "c.pem" || c.path(g.TLS.Cert) != filepath.Join("dir", "c.pem") || c.path("/x") != "/x" {
		t.Error("paths are relative to the file's directory")
	}
	p, err := g.Policy(map[string]uint32{"orders": 77})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Off || !p.Excluded([]byte("bull:1")) {
		t.Error("enabled and exclude don't reach the policy")
	}
	r := p.Rules()
	zstd := codec.Setting{Codec: codec.Zstd, Level: 3, Dict: 77}
	if r[0].Name != "menus" || r[0].Space != "0" || r[0].Types != policy.String || r[0].MinSize != 128 ||
		r[0].MaxSize != 1<<20 || r[0].MinGain != 0.125 || r[0].Setting != zstd {
		t.Errorf("%+v", r[0])
	}
	if r[1].Name != "rule-2" || !r[1].Raw() || r[1].MinSize != 0 || r[1].Types != policy.DefaultTypes {
		t.Errorf("%+v", r[1])
	}
	if r[2].Types != policy.Hash|policy.Stream || r[2].Field != "body*" || r[2].MinGain != policy.AnyGain || r[2].MinSize != 1 {
		t.Errorf("%+v", r[2])
	}
	if _, err := g.Policy(nil); err == nil {
		t.Error("a dictionary that is not loaded is accepted")
	}
}

const small = `
gateways:
  - {name: a, protocol: redis, listen: ":6380", upstream: "redis://h", rules: [{setting: zstd-3}]}
`

func TestDefaults(t *testing.T) {
	c := parse(t, small)
	g, r := c.Gateways[0], c.Gateways[0].Rules[0]
	if c.Admin.Listen != DefaultAdmin || c.Memory.Budget != DefaultBudget || c.Log.Level != "info" || c.Zstd != "auto" {
		t.Errorf("%+v", c)
	}
	if !g.Enabled || g.MaxSeal != DefaultMaxSeal || *g.MaxOpen != DefaultMaxOpen || g.MaxConnections != DefaultMaxConnections {
		t.Errorf("%+v", g)
	}
	if r.Key != "*" || *r.MinSize != policy.DefaultMinSize || r.MinGain != 100*policy.DefaultMinGain || r.Name != "rule-1" || r.DB != nil {
		t.Errorf("%+v", r)
	}
}

// TestComplaints parses the files in testdata: each has a "# want: " line for every problem, in order.
func TestComplaints(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for line := range strings.Lines(string(text)) {
			if w, ok := strings.CutPrefix(line, "# want: "); ok {
				want = append(want, strings.TrimSpace(w))
			}
		}
		_, err = Parse("f", text, nil)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", file, err)
			continue
		}
		got := strings.Split(err.Error(), "\n")
		if slices.Equal(got, want) {
			continue
		}
		for i := range max(len(got), len(want)) {
			if a, b := at(got, i), at(want, i); a != b {
				t.Errorf("%s, complaint %d is\n%s\nbut its \"# want: \" line says\n%s", file, i+1, a, b)
			}
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}

func TestOverrides(t *testing.T) {
	env := map[string]string{"CINCH_LOG_LEVEL": "warn", "CINCH_MEMORY_BUDGET": "64MiB", "CINCH_ZSTD": "", "CINCH_PORT": "tcp://10.0.0.1"}
	overrides := append(FromEnvironment(func(k string) string { return env[k] }),
		Override{From: "--log-level", Key: "log.level", Value: "error"})
	c := parse(t, full, overrides...)
	if c.Log.Level != "error" || c.Memory.Budget != 64<<20 || c.Zstd != "go" || c.Admin.Listen != "127.0.0.1:9999" {
		t.Errorf("flag over environment over file: %+v", c)
	}
	for value, want := range map[string]string{
		"loud":  `CINCH_LOG_LEVEL: unknown value "loud": write debug, info, warn or error`,
		"debgu": `CINCH_LOG_LEVEL: unknown value "debgu": did you mean "debug"?`,
	} {
		_, err := Parse("f", []byte(full), nil, Override{From: "CINCH_LOG_LEVEL", Key: "log.level", Value: value})
		if err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
	}
	_, err := Parse("f", []byte(full), nil, Override{From: "--memory", Key: "memory.budget", Value: "much"})
	if err == nil || err.Error() != `--memory: "much" is not a size: write bytes, or a unit as in 256KB or 32MiB` {
		t.Errorf("got %v", err)
	}
	if env := FromEnvironment(func(string) string { return "x" }); len(env) != len(environment) {
		t.Error("an entry is lost")
	}
	for _, e := range environment { // every key exists
		_, _ = Parse("f", []byte(small), nil, Override{From: e.name, Key: e.key, Value: "1s"})
	}
}

func TestParseRule(t *testing.T) {
	r, err := ParseRule("key=menu:*,setting=zstd-5,type=hash, min_gain = 5%")
	if err != nil || r.Key != "menu:*" || r.Setting.Level != 5 || r.Type[0] != "hash" || r.MinGain != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	for text, want := range map[string]string{
		"menu":          `--rule: missing = in "menu": write key=PATTERN,setting=SETTING`,
		"keys=x":        `--rule.keys: unknown key: did you mean "key"?`,
		"min_size=much": `--rule.min_size: "much" is not a size: write bytes, or a unit as in 256KB or 32MiB`,
	} {
		if _, err := ParseRule(text); err == nil || err.Error() != want {
			t.Errorf("%s: got %v", text, err)
		}
	}
	// Problems that only validation finds are reported when the gateway is added.
	rule, _ := ParseRule("key=a")
	_, err = Load("", []Gateway{RedisGateway("redis", ":1", "redis://h", []Rule{rule})})
	if err == nil || !strings.Contains(err.Error(), "--rule.setting: is missing") {
		t.Errorf("got %v", err)
	}
}

func TestShowIsTheSameConfig(t *testing.T) {
	for _, text := range []string{full, small} {
		c := parse(t, text)
		shown, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(t, string(shown)).YAML()
		if err != nil || string(again) != string(shown) {
			t.Errorf("%v\n%s\nbecomes\n%s", err, shown, again)
		}
	}
}

func TestRedacted(t *testing.T) {
	c := parse(t, full)
	shown, err := c.Redacted().YAML()
	if err != nil || strings.Contains(string(shown), "s3cret") || !strings.Contains(string(shown), "rediss://gw:xxxxx@db.example:6390") {
		t.Errorf("%v\n%s", err, shown)
	}
	if !strings.Contains(c.Gateways[0].Upstream, "s3cret") {
		t.Error("Redacted changed the original")
	}
	for raw, want := range map[string]string{
		"redis://h:1":            "redis://h:1",
		"redis://s3cret@h":       "redis://xxxxx@h",
		"redis://:s3cret@h":      "redis://:xxxxx@h",
		"redis://u:s3%2Fcret@h":  "redis://u:xxxxx@h",
		"unix://u:s3cret@/a":     "unix://u:xxxxx@/a",
		"h:6379":                 "h:6379",
		"u:s3cret@h:6379":        "u:xxxxx@h:6379",
		"redis://u:s3cret@h:%zz": "xxxxx",

		"redis://u:s3?cret@h": "xxxxx", "redis://u:53?cret@h": "xxxxx", "redis://u:53/cret@h": "xxxxx", "redis://u:53#cret@h": "xxxxx",
		"redis://u:s3@x?cret@h": "xxxxx", "u:53?cret@h:6379": "xxxxx", "redis+cluster://u:s3?cret@h": "xxxxx",
		"postgres://h/d?password=s3cret&user=u":                "postgres://h/d?password=xxxxx&user=u",
		"postgres://u@h/d?password=s3cret":                     "postgres://xxxxx@h/d?password=xxxxx",
		"postgres://h/d?sslmode=require&host=/run":             "postgres://h/d?sslmode=require&host=/run",
		"redis+cluster://u:s3/cret@h":                          "redis+cluster://u:xxxxx@h",
		"redis+sentinel://u:s3?cret@h/m?sentinel_password=s3":  "xxxxx",
		"redis+sentinel://u:s3@h,i/m?sentinel_password=s3@ret": "redis+sentinel://u:xxxxx@h,i/m?sentinel_password=xxxxx",
	} {
		if got := RedactURL(raw); got != want {
			t.Errorf("%s: got %s", raw, got)
		}
	}
}

// A ? in a password ends up in the parameters, and no error shows it.
func TestUnescapedPasswords(t *testing.T) {
	for _, raw := range []string{"redis+cluster://u:s3?cret@h", "redis+cluster://u:s3?cret=@h", "redis+sentinel://u:s3?cret@h/m", "redis://u:53?cret@h"} {
		g := RedisGateway("redis", ":1", raw, nil)
		if _, err := g.RedisServers(); err == nil || strings.Contains(err.Error(), "cret") || !strings.Contains(err.Error(), "%3F") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	g := RedisGateway("redis", ":1", "redis+sentinel://u:p@h/m?sentinel_user=a@b&sentinel_password=p@ss", nil)
	if s, err := g.RedisServers(); err != nil || s.SentinelPassword != "p@ss" || s.Hosts[0].Password != "p" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestFrozen(t *testing.T) {
	a := parse(t, full)
	live := strings.NewReplacer("level: debug", "level: warn", "enabled: false", "enabled: true",
		"bull:*", "bq:*", "setting: lz4", "setting: s2", "orders.dict", "o2.dict")
	if keys := Frozen(a, parse(t, live.Replace(full))); keys != nil {
		t.Errorf("can change while running: %q", keys)
	}
	dead := strings.NewReplacer("127.0.0.1:9999", "127.0.0.1:9998", "16MiB", "8MiB", "k.pem", "k2.pem")
	want := "admin.listen gateways[cache].tls gateways[cache].max_seal"
	if keys := Frozen(a, parse(t, dead.Replace(full))); strings.Join(keys, " ") != want {
		t.Errorf("got %q", keys)
	}
	want = "admin.listen log.format memory.budget zstd drain_timeout gateways[cache] (removed) gateways[a] (added)"
	if keys := Frozen(a, parse(t, small)); strings.Join(keys, " ") != want {
		t.Errorf("got %q", keys)
	}
}

// TestEveryKeyOfAGatewayIsLiveOrFrozen checks that a changed key of a gateway either changes by a reload or is
// named as one that needs a restart.
func TestEveryKeyOfAGatewayIsLiveOrFrozen(t *testing.T) {
	fields := reflect.TypeFor[Gateway]()
	for i := range fields.NumField() {
		key, _, _ := strings.Cut(fields.Field(i).Tag.Get("yaml"), ",")
		if key == "" || slices.Contains(liveKeys, key) {
			continue
		}
		a, b := parse(t, full), parse(t, full)
		changed := reflect.ValueOf(&b.Gateways[0]).Elem().Field(i)
		if changed.IsZero() {
			changed.Set(nonZero(changed.Type()))
		} else {
			changed.SetZero()
		}
		if keys := Frozen(a, b); len(keys) != 1 || !strings.HasSuffix(keys[0], "."+key) {
			t.Errorf("%s has changed, and a reload names %q", key, keys)
		}
	}
}

// nonZero returns a value other than the zero value.
func nonZero(of reflect.Type) reflect.Value {
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(of, 1, 1))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	case reflect.Float64:
		v.SetFloat(1)
	default:
		v.SetInt(1)
	}
	return v
}

// TestDocs checks that the example in docs/CONFIG.md is valid, and that every key and variable is documented
// there.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/CONFIG.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(text)
	_, example, _ := strings.Cut(docs, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if c := parse(t, example); len(c.Gateways) != 1 || len(c.Gateways[0].Rules) != 5 {
		t.Errorf("the example is not what it was: %+v", c)
	}
	for _, e := range environment {
		if !strings.Contains(docs, "`"+e.name+"`") || !strings.Contains(docs, "`"+e.key+"`") {
			t.Errorf("%s is not described", e.name)
		}
	}
	for _, v := range []any{Dictionary{}, Training{}, Gateway{}, Pack{}, Rule{}, TLS{}, UpstreamTLS{}, Link{}} {
		for name := range fieldNames(reflect.TypeOf(v)) {
			if !regexp.MustCompile("[`.]" + name + "[`.]").MatchString(docs) {
				t.Errorf("%T: %s is not described", v, name)
			}
		}
	}
}

// Values stay readable after max_seal was lowered or raised.
func TestMaxOpenFollowsMaxSeal(t *testing.T) {
	for more, want := range map[string]Bytes{
		"max_seal: 1MiB":                   32 << 20,
		"max_seal: 64MiB":                  64 << 20,
		"max_seal: 1MiB, max_open: 2MiB":   2 << 20,
		"max_seal: 64MiB, max_open: 64MiB": 64 << 20,
	} {
		c := parse(t, strings.Replace(small, "{name: a", "{"+more+", name: a", 1))
		if got := *c.Gateways[0].MaxOpen; got != want {
			t.Errorf("%s: max_open is %s", more, got)
		}
	}
}

// A dictionary in the upstream needs no file.
func TestDictionaryByNumber(t *testing.T) {
	c := parse(t, strings.Replace(small, "setting: zstd-3", "setting: zstd-3@0a1b2c3d", 1))
	p, err := c.Gateways[0].Policy(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Dictionaries(); len(got) != 1 || got[0] != 0x0a1b2c3d {
		t.Errorf("%08x", got)
	}
}

func TestProcess(t *testing.T) {
	c, err := Process(Override{From: "CINCH_ZSTD", Key: "zstd", Value: "libzstd"}, Override{From: "--zstd", Key: "zstd", Value: "go"})
	if err != nil || c.Zstd != "go" || c.Log.Level != "info" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err = Process(Override{From: "CINCH_ZSTD", Key: "zstd", Value: "fast"}); err == nil || !strings.HasPrefix(err.Error(), "CINCH_ZSTD: unknown value") {
		t.Errorf("got %v", err)
	}
}

// A protocol without a hint of its own would get that of Redis.
func TestEveryProtocolHasAHint(t *testing.T) {
	for _, p := range Protocols() {
		if upstreamHints[p] == "" {
			t.Errorf("%s: upstreamHints does not say how its upstream is written; parseUpstream reads it", p)
		}
	}
}

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
