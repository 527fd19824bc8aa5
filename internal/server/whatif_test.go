package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/test/testenv"
)

const whatIfToken = "a token of some length"

// whatIfBench is a process in front of a real server, with an admin page whose actions take a token.
type whatIfBench struct {
	t       *testing.T
	process *Process
	log     *testenv.Log
	store   *goredis.Client // the server itself
	client  *goredis.Client // through the gateway
	admin   string
	rules   string // for the next reload
	random  *rand.Rand
	values  int
}

func newWhatIfBench(t *testing.T, rules string) *whatIfBench {
	t.Helper()
	server := testenv.Redis(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(whatIfToken), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &whatIfBench{t: t, log: &testenv.Log{}, rules: rules, random: rand.New(rand.NewPCG(19, 3))}
	var err error
	b.process, err = New(Options{
		Load: func() (*config.Config, error) {
			text := fmt.Sprintf("admin: {listen: 127.0.0.1:0, token_file: %q}\ngateways: [{name: cache, protocol: redis, listen: 127.0.0.1:0, upstream: %q, rules: %s}]\n", token, server.URL(), b.rules)
			return config.Parse("", []byte(text), nil)
		},
		Log:  b.log,
		Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},

		whatIfCores: 0.5, // with the default of a hundredth of a core the test would take long
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, drain := context.WithCancelCause(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.process.Run(ctx, context.Background()) }()
	t.Cleanup(func() {
		drain(errors.New("the test is over"))
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	gateways, admin := b.process.Addresses()
	b.admin = "http://" + admin.String()
	patient := func(addr string) *goredis.Options {
		return &goredis.Options{Addr: addr, ReadTimeout: time.Minute, WriteTimeout: time.Minute, MaxRetries: -1}
	}
	b.client, b.store = goredis.NewClient(patient(gateways[0].String())), goredis.NewClient(patient(server.Addr))
	t.Cleanup(func() { _ = b.client.Close(); _ = b.store.Close() })
	testenv.Eventually(t, "the gateway serves", func() bool { return b.client.Ping(t.Context()).Err() == nil })
	return b
}

// secret is in every value, and nowhere else.
const secret = "sesame-of-the-user"

// value returns one of several kinds: JSON of 200 bytes to 4 KB, noise, tiny ones and numbers.
func (b *whatIfBench) value() string {
	r, spread := b.random, b.values*7919 // lengths are spread evenly, so that the test does not depend on luck
	switch b.values % 10 {
	case 0:
		noise := make([]byte, 300+spread%1500)
		for i := range noise {
			noise[i] = byte(r.Uint32())
		}
		return string(noise)
	case 1, 2:
		return fmt.Sprintf(`{"id":%d,"%s":1}`, r.IntN(1e6), secret)
	case 3:
		return fmt.Sprint(r.IntN(1e9))
	}
	var s strings.Builder
	fmt.Fprintf(&s, `{"order":%d,"note":%q,"items":[`, r.IntN(1e9), secret)
	for n := 200 + spread%3800; s.Len() < n; {
		fmt.Fprintf(&s, `{"sku":"%08x","count":%d,"price":%d.%02d,"state":%q},`, r.Uint32(), r.IntN(9), r.IntN(500), r.IntN(100), []string{"new", "paid", "shipped", "returned"}[r.IntN(4)])
	}
	return s.String() + "{}]}"
}

// write sets n new values and returns their size and their size in the server.
func (b *whatIfBench) write(n int) (raw, stored int64) {
	b.t.Helper()
	pipe, lengths := b.client.Pipeline(), b.store.Pipeline()
	for range n {
		v, key := b.value(), fmt.Sprintf("v:%d", b.values)
		b.values++
		raw += int64(len(v))
		pipe.Set(b.t.Context(), key, v, 0)
		lengths.StrLen(b.t.Context(), key)
	}
	if _, err := pipe.Exec(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	found, err := lengths.Exec(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range found {
		stored += f.(*goredis.IntCmd).Val()
	}
	return raw, stored
}

func (b *whatIfBench) post(action string, body any) (status int, answer string) {
	b.t.Helper()
	text, isText := body.(string)
	if !isText {
		made, err := json.Marshal(body)
		if err != nil {
			b.t.Fatal(err)
		}
		text = string(made)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.admin+"/api/actions/"+action, bytes.NewReader([]byte(text)))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+whatIfToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(got)
}

// ask returns the answer of /api/whatif.
func (b *whatIfBench) ask() (d whatIfDocument) {
	b.t.Helper()
	status, body := ask(b.t, http.DefaultClient, b.admin+"/api/whatif", "")
	if status != http.StatusOK {
		b.t.Fatal(status, body)
	}
	if strings.Contains(body, secret) {
		b.t.Fatal("the answer has a piece of a value")
	}
	if err := json.Unmarshal([]byte(body), &d); err != nil {
		b.t.Fatal(err)
	}
	return d
}

func (b *whatIfBench) rule() whatIfRule { return b.ask().Gateways[0].Rules[0] }

// sampled requests samples, and writes until there are n.
func (b *whatIfBench) sampled(n uint64) whatIfRule {
	b.t.Helper()
	b.ask()
	var r whatIfRule
	testenv.Eventually(b.t, "values are sampled", func() bool {
		b.write(300)
		r = b.rule()
		return r.Sampled >= n
	})
	return r
}

func (r *whatIfRule) choice(t *testing.T, codec string, level, minSize int) map[string]any {
	t.Helper()
	for _, c := range r.Choices {
		if c.Codec == codec && c.Level == level && c.MinSize == minSize {
			return map[string]any{"gateway": "cache", "rule": r.Rule.Rule, "codec": c.Codec, "level": c.Level, "dictionary": c.Dictionary, "min_size": c.MinSize}
		}
	}
	t.Fatalf("no %s %d from %d", codec, level, minSize)
	return nil
}

// The forecast for a setting matches what the gateway counts once it is applied, and the server's memory.
func TestWhatIfForecastIsFact(t *testing.T) {
	b := newWhatIfBench(t, "[{name: all, setting: zstd-3}]")
	r := b.sampled(3000)
	for _, c := range []struct {
		codec           string
		level, min, all int // all: whether the rule covers every value
	}{{"lz4", 0, 64, 0}, {"zstd", 1, 64, 0}, {"zstd", 9, 64, 0}, {"zstd", 3, 1024, 0}, {"zstd", 3, 1, 1}} {
		if status, answer := b.post("whatif-apply", r.choice(t, c.codec, c.level, c.min)); status != http.StatusOK {
			t.Fatal(status, answer)
		}
		raw, stored := b.write(2000)
		r = b.rule()
		a := r.Applied
		if a == nil || a.Values == 0 {
			t.Fatalf("%v: nothing was applied: %+v", c, a)
		}
		if off := math.Abs(a.Observed/a.Forecast - 1); off > 0.05 {
			t.Errorf("%v: forecast %.3f, fact %.3f", c, a.Forecast, a.Observed)
		}
		t.Logf("%v: forecast %.3f, fact %.3f of %d values; the server holds 1/%.3f of all", c, a.Forecast, a.Observed, a.Values, float64(raw)/float64(stored))
		if held := float64(raw) / float64(stored); c.all == 1 && math.Abs(held/a.Observed-1) > 0.001 {
			t.Errorf("%v: the server holds %.3f, estimated %.3f", c, held, a.Observed)
		}
		current := 0 // choice
		for _, choice := range r.Choices {
			if choice.Current {
				current++
			}
		}
		if current != 1 || b.process.describe().Gateways[0].Rules[0].Instead != "zstd-3" {
			t.Errorf("%v: %d choices are current, and the page says %+v", c, current, b.process.describe().Gateways[0].Rules[0])
		}
		if status, answer := b.post("whatif-undo", map[string]string{"gateway": "cache", "rule": "all"}); status != http.StatusOK {
			t.Fatal(status, answer)
		}
		r = b.rule()
	}
	if strings.Contains(b.log.String(), secret) {
		t.Error("the log has a piece of a value")
	}
}

// Values that a rule leaves alone are reported, and an applied setting ends with an undo, and with a reload.
func TestWhatIfAppliesAndEnds(t *testing.T) {
	b := newWhatIfBench(t, "[{name: all, setting: zstd-3, min_size: 100}, {name: rest, setting: lz4}]")
	r := b.sampled(100)
	leave := &r.Choices[0]
	if !leave.Leave || leave.Ratio != 1 || leave.Current {
		t.Errorf("the first choice is %+v", leave)
	}
	setting := func() string { return b.process.describe().Gateways[0].Rules[0].Setting }
	overrides := func() string {
		status, page := ask(t, http.DefaultClient, b.admin+"/metrics", "")
		if status != http.StatusOK {
			t.Fatal(status)
		}
		_, line, _ := strings.Cut(page, "\ncinch_serve_rule_overrides{")
		line, _, _ = strings.Cut(line, "\n")
		return line
	}
	apply := func(codec string, level, minSize int) {
		t.Helper()
		if status, answer := b.post("whatif-apply", r.choice(t, codec, level, minSize)); status != http.StatusOK {
			t.Fatal(status, answer)
		}
	}
	apply("raw", 0, 0)
	if raw, stored := b.write(200); raw != stored || setting() != "raw" || overrides() != `gateway="cache"} 1` {
		t.Errorf("left alone: %d bytes are %d; %s; %s", raw, stored, setting(), overrides())
	}
	a := b.rule().Applied
	if a == nil || a.Forecast != 1 || a.Observed != 1 || a.AppliedBy != "page" {
		t.Errorf("applied: %+v", a)
	}
	apply("lz4", 0, 100)
	if got := setting(); got != "lz4" {
		t.Error("applied over another:", got)
	}
	if status, answer := b.post("whatif-undo", `{"gateway": "cache", "rule": "all"}`); status != http.StatusOK || setting() != "zstd-3" {
		t.Error(status, answer, setting())
	}
	if raw, stored := b.write(200); stored > raw*2/3 {
		t.Errorf("after the undo %d bytes are %d", raw, stored)
	}
	apply("zstd", 9, 100)
	b.rules = "[{name: all, settng: zstd-1}]"
	b.process.Reload()
	testenv.Eventually(t, "the mistake is told", func() bool { return b.log.Count("keeping the old one") > 0 })
	if got := setting(); got != "zstd-9" {
		t.Error("after a reload that was refused:", got)
	}
	b.rules = "[{name: all, setting: zstd-1}]"
	b.process.Reload()
	testenv.Eventually(t, "the rules are in force", func() bool { return b.log.Count("configuration reloaded") == 1 })
	if got := setting(); got != "zstd-1" || b.rule().Applied != nil || overrides() != `gateway="cache"} 0` {
		t.Error("after a reload:", got, overrides())
	}
}

// A setting that can't be applied is refused with a hint, and changes nothing.
func TestWhatIfRefuses(t *testing.T) {
	b := newWhatIfBench(t, `[{name: all, setting: zstd-3}, {name: watched, setting: lz4, mode: observe}]`)
	for name, c := range map[string]struct{ action, text, want string }{
		"no JSON":           {"whatif-apply", "lz4", "not a setting that can be applied"},
		"unknown key":       {"whatif-apply", `{"gateway":"cache","rule":"all","codec":"lz4","force":true}`, "not a setting that can be applied"},
		"two of them":       {"whatif-apply", `{"gateway":"cache","rule":"all","codec":"lz4","min_size":64} {}`, "not a setting that can be applied"},
		"another gateway":   {"whatif-apply", `{"gateway":"cash","rule":"all","codec":"lz4","min_size":64}`, "no gateway"},
		"another rule":      {"whatif-apply", `{"gateway":"cache","rule":"al","codec":"lz4","min_size":64}`, "no rule"},
		"another codec":     {"whatif-apply", `{"gateway":"cache","rule":"all","codec":"lz5","min_size":64}`, "no choice"},
		"another level":     {"whatif-apply", `{"gateway":"cache","rule":"all","codec":"zstd","level":99,"min_size":64}`, "no choice"},
		"another size":      {"whatif-apply", `{"gateway":"cache","rule":"all","codec":"lz4","min_size":-1}`, "no choice"},
		"a dictionary":      {"whatif-apply", `{"gateway":"cache","rule":"all","codec":"zstd","level":3,"dictionary":"auto","min_size":64}`, "no choice"},
		"raw that observes": {"whatif-apply", `{"gateway":"cache","rule":"watched","codec":"raw"}`, "nothing to observe"},
		"nothing to undo":   {"whatif-undo", `{"gateway":"cache","rule":"all"}`, "has the configured setting already"},
	} {
		if status, answer := b.post(c.action, c.text); status != http.StatusConflict || !strings.Contains(answer, c.want) {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	if n := len(b.process.gateways[0].whatIf.overrides.Applied()); n != 0 {
		t.Errorf("%d were applied", n)
	}
	resp, err := http.Post(b.admin+"/api/actions/whatif-apply", "application/json", strings.NewReader(`{"gateway":"cache","rule":"all","codec":"lz4","min_size":64}`))
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusUnauthorized {
		t.Error("without a token:", resp.StatusCode)
	}
}

// The YAML of each choice is a valid rule, and has the same effect on the policy as applying the choice.
func TestWhatIfYAML(t *testing.T) {
	for _, rules := range []string{
		`[{name: all, key: "a:*", db: 2, type: [string, stream], max_size: 1MiB, min_gain: 20%, setting: zstd-3}]`,
		`[{name: all, setting: raw}]`,
		`[{name: all, setting: lz4, mode: observe, min_size: 0}]`,
		`[{name: all, setting: zstd-1, dictionary: auto, share_samples: true, no_sample: ["b*"]}]`,
	} {
		b := newWhatIfBench(t, rules)
		says := b.process.current.Load().policies["cache"]
		var r whatIfRule
		b.ask()
		for _, c := range b.rule().Choices {
			if c.Leave && strings.Contains(rules, "observe") {
				continue
			}
			r = b.rule()
			indented := strings.ReplaceAll(strings.TrimSuffix(c.YAML, "\n"), "\n", "\n      ")
			cfg, err := config.Parse("", []byte("gateways:\n  - name: cache\n    protocol: redis\n    listen: 127.0.0.1:1\n    upstream: redis://db\n    rules:\n      "+indented+"\n"), nil)
			if err != nil {
				t.Fatalf("%v:\n%s", err, c.YAML)
			}
			made, err := cfg.Gateway("cache").Policy(nil)
			if err != nil {
				t.Fatal(err)
			}
			if status, answer := b.post("whatif-apply", r.choice(t, c.Codec, c.Level, c.MinSize)); status != http.StatusOK {
				t.Fatal(status, answer)
			}
			inForce, _ := b.process.gateways[0].whatIf.overrides.Policies()
			want, got := inForce.Rules()[0], made.Rules()[0]
			if got.Setting != want.Setting || got.MinSize != want.MinSize && !got.Raw() || got.MaxSize != want.MaxSize || got.Key != want.Key || got.Types != want.Types ||
				got.Space != want.Space || got.MinGain != want.MinGain || got.Observe != want.Observe || got.Auto != (c.Dictionary == "auto") || got.Auto && !says.Rules()[0].Auto {
				t.Errorf("the YAML makes %+v, applying %+v:\n%s", got, want, c.YAML)
			}
			b.post("whatif-undo", `{"gateway": "cache", "rule": "all"}`)
		}
	}
}

// Without configured credentials nothing can be applied, and the page says so.
func TestWhatIfTellsOfActions(t *testing.T) {
	rules := "[{setting: lz4}]"
	p, _, err := newProcess(t, "127.0.0.1:0", &rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	if d := (whatIfPage{p}).document().(whatIfDocument); d.Actions || len(d.Gateways) != 1 || len(d.Gateways[0].Rules) != 1 || d.Gateways[0].Rules[0].Sampled != 0 {
		t.Errorf("%+v", d)
	}
}
