package plan

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// zstdWriter is made once, since that takes longer than writing a value.
var zstdWriter = sync.OnceValue(func() *zstd.Encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	return w
})

// glide compresses as Valkey GLIDE does, which leaves values below 64 bytes uncompressed.
func glide(value []byte) []byte {
	if len(value) < 64 {
		return value
	}
	return zstdWriter().EncodeAll(value, []byte{0, 1, 2, 0, 1})
}

// orders returns 500 to 900 bytes of JSON: long enough for zstd to leave few bytes as literals.
func orders(r *rand.Rand) []byte {
	b := fmt.Appendf(nil, `{"customer":{"number":%d,"name":%q,"city":%q},"orders":[`, r.IntN(1e7), prose(r, 2), prose(r, 1))
	for range 3 + r.IntN(3) {
		b = fmt.Appendf(b, `{"order_id":%d,"product":%q,"quantity":%d,"unit_price":"%d.%02d","currency":"EUR","status":"shipped"},`, r.IntN(1e8), prose(r, 2), 1+r.IntN(5), r.IntN(200), r.IntN(100))
	}
	return fmt.Appendf(b, `{}],"balance":%d,"newsletter":%v}`, r.IntN(1e5), r.IntN(2) > 0)
}

func django(value []byte) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write(value)
	_ = w.Close()
	return b.Bytes()
}

// library plans values by name, collected as from a Redis server.
func library(t testing.TB, o Options, values map[string]func(i int) []byte, n int) *Report {
	t.Helper()
	c := NewCollector(CollectOptions{Cost: RedisCost, Foreign: true})
	for i := range n {
		for _, pattern := range slices.Sorted(maps.Keys(values)) { // in order: all share a source of random numbers
			name := fmt.Appendf(nil, pattern, i)
			if ticket := c.Offer("0", name); ticket.Read {
				c.Value("0", name, "string", ticket, values[pattern](i))
			}
		}
	}
	o.Source = SourceInfo{Name: "redis://localhost", Protocol: config.Redis, Medium: price.InMemory, Cost: RedisCost, Never: policy.NeverSeal, DictCost: redis.DictCost}
	r, err := Make(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func few(t testing.TB) Options {
	o := options(t)
	o.Minimize, o.Candidates = MinBytes, nil
	for _, text := range []string{"lz4", "zstd-3", "brotli-5", "zstd-3+dict"} {
		c, err := ParseCandidate(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Candidates = append(o.Candidates, c)
	}
	return o
}

// Values that libraries have compressed are named and counted, and their content is measured; values that
// only look like it, and rare ones in a group, are not.
func TestForeign(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and other plans run with the detector")
	}
	r := rand.New(rand.NewPCG(3, 3))
	value := orders
	rep := library(t, few(t), map[string]func(i int) []byte{
		"user:%d": func(int) []byte { return glide(value(r)) },
		"page:%d": func(int) []byte { return django(value(r)) },
		"mixed:%d": func(i int) []byte {
			if i%4 == 0 {
				return glide(kinds["counter"](r))
			}
			return glide(value(r))
		},
		"older:%d": func(i int) []byte {
			if i%3 == 0 {
				return glide(value(r))
			}
			return value(r)
		},
		"newer:%d": func(i int) []byte {
			if i%3 == 0 {
				return value(r)
			}
			return glide(value(r))
		},
		"small:%d": func(i int) []byte {
			if i%3 != 0 {
				return []byte("on")
			}
			return glide(value(r))
		},
		"look:%d":  func(int) []byte { return append([]byte{0, 1, 2, 0, 1, 0x28, 0xb5, 0x2f, 0xfd}, noise(r, 200)...) },
		"plain:%d": func(int) []byte { return value(r) },
		"noise:%d": func(int) []byte { return glide(noise(r, 300)) },
	}, 200)
	for pattern, want := range map[string]Foreign{
		"user:*":  {Format: "glide-zstd", Rule: "glide", Samples: 200, Opened: 200},
		"page:*":  {Format: "zlib", Rule: "zlib", Samples: 200, Opened: 200},
		"mixed:*": {Format: "glide-zstd", Rule: "glide", Samples: 200, Opened: 150, Plain: 50},
		"older:*": {Format: "glide-zstd", Rule: "glide", Samples: 200, Opened: 67, Plain: 133},
		"newer:*": {Format: "glide-zstd", Rule: "glide", Samples: 200, Opened: 133, Plain: 67},
		"small:*": {Format: "glide-zstd", Rule: "glide", Samples: 200, Opened: 67, Plain: 133},
		"noise:*": {Format: "glide-zstd", Rule: "glide", Samples: 200, Opened: 200},
	} {
		x := group(t, rep, pattern).Foreign
		if x == nil {
			t.Errorf("%s: nothing foreign is found", pattern)
		} else if got := (Foreign{Format: x.Format, Rule: x.Rule, Samples: x.Samples, Opened: x.Opened, Plain: x.Plain, Unopened: x.Unopened}); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, want %+v", pattern, got, want)
		}
	}
	for _, pattern := range []string{"look:*", "plain:*"} {
		if x := group(t, rep, pattern).Foreign; x != nil {
			t.Errorf("%s: %+v", pattern, x)
		}
	}
	foreignChoices(t, rep)
	foreignInWords(t, rep)
	foreignRules(t, rep)
}

// foreignChoices checks the recommendations.
func foreignChoices(t *testing.T, rep *Report) {
	t.Helper()
	for _, pattern := range []string{"user:*", "page:*", "mixed:*"} {
		g := group(t, rep, pattern)
		x := g.Foreign
		if o := x.suggested(); o == nil || o.Name != "zstd-3+dict" || x.Saved != g.Now-o.After || x.Saved < g.Now/12 || x.RatioAfter <= x.RatioNow || x.RatioNow < 1.1 {
			t.Errorf("%s: %+v", pattern, x)
		}
		if g.Choice >= 0 || !strings.Contains(g.Why, "compressed already, "+x.writer()) || g.todo() != "re-seal?" {
			t.Errorf("%s: %s, %s", pattern, g.todo(), g.Why)
		}
	}
	if g := group(t, rep, "newer:*"); g.Choice < 0 || g.Foreign.suggested() == nil || g.Foreign.Saved <= g.Now-g.After() || g.todo() != "zstd-3" {
		t.Errorf("a third plain: %s, %+v", g.todo(), g.Foreign)
	}
	if x := group(t, rep, "small:*").Foreign; x.Resealed == nil {
		t.Errorf("most values are too short to count, but: %+v", x)
	}
	if g := group(t, rep, "older:*"); g.Choice < 0 || g.Foreign.suggested() != nil || g.Foreign.Resealed != nil {
		t.Errorf("mostly plain: %s, %+v", g.todo(), g.Foreign)
	}
	if g := group(t, rep, "noise:*"); g.Choice >= 0 || g.Foreign.suggested() != nil || g.Foreign.Why == "" {
		t.Errorf("noise: %s, %+v", g.todo(), g.Foreign)
	}
}

// foreignInWords checks the text and the page.
func foreignInWords(t *testing.T, rep *Report) {
	var text, page bytes.Buffer
	if err := rep.Text(&text, TextOptions{Width: 100, Details: true}); err != nil {
		t.Fatal(err)
	}
	if err := rep.HTML(&page); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	words := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		`user:\* holds values compressed by Valkey GLIDE \(zstd\): \d\.\dx today, \d\.\dx when re-sealed with zstd-3\+dict: [\d.]+ KiB less\. To do so: format: glide in its rule, then cinch pack --allow-recode\. All of 200 values sampled decompress\. None of 100 tried are restored byte for byte\.`,
		`page:\* holds values compressed with zlib, as django-redis does: .* format: zlib in its rule`,
		`Of 200 values sampled, 150 decompress, 50 are plain \(GLIDE leaves those below 64 bytes\)\.`,
		`older:\* holds some values that are compressed by Valkey GLIDE \(zstd\), too few to plan for .* 67 decompress, 133 are plain\. newer`,
		`noise:\* holds values compressed by Valkey GLIDE \(zstd\): 0\.8x today\. Re-sealing is not worth it: compression saves less than 5%.`,
		`may be the application's own`, `user:\*, re-sealed`, `newer:\* .* less; its rule without a format saves [\d.]+ KiB\. To do so`,
	} {
		if !regexp.MustCompile(want).MatchString(words) {
			t.Errorf("%s is not in the text", want)
		}
	}
	for _, want := range []string{"user:*, re-sealed", "format: glide in its rule", "Re-sealing what client libraries have compressed would save"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%s is not in the page", want)
		}
	}
}

// foreignRules checks that the configuration compresses nothing of a library's, and does so when the rules
// are uncommented.
func foreignRules(t *testing.T, rep *Report) {
	text, files, err := rep.Config(WriteOptions{Listen: "127.0.0.1:0", Upstream: "redis://localhost", Base: "x"})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(string(text))
	at := policy.Address{Space: "0", Key: []byte("user:7"), Type: policy.String, Size: 1000}
	if rule := lookup(t, text, files, at); rule != nil && !rule.Raw() {
		t.Errorf("%s is sealed without being asked for", rule.Name)
	}
	text = regexp.MustCompile(`(?m)^( *)# ( *(- (name: \S+\n|\{)|key:|type:|setting:|dictionary:|dictionaries:|format:))`).ReplaceAll(text, []byte("$1$2"))
	if n := bytes.Count(text, []byte("        format: ")); n != 4 {
		t.Errorf("%d formats:\n%s", n, text)
	}
	rule := lookup(t, text, files, at)
	if x := group(t, rep, "user:*").Foreign; rule == nil || len(rule.Formats) != 2 || rule.Setting.Dict != x.Resealed.Trained.Number() || rule.Name != "user-glide" {
		t.Errorf("%+v is not as suggested\n%s", rule, text)
	}
}

func lookup(t *testing.T, text []byte, files []DictionaryFile, at policy.Address) *policy.Rule {
	t.Helper()
	p, _ := policyOf(t, text, files)
	return p.Lookup(at)
}

// A server that holds only values compressed by libraries gets a configuration, too, and its page does not suggest
// that nothing can be gained.
func TestForeignOnly(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	o := few(t)
	rep := library(t, o, map[string]func(i int) []byte{"user:%d": func(int) []byte {
		v, err := clientformat.Append(nil, clientformat.GlideZstd, 0, orders(r), o.Engine)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}}, 200)
	foreignRulesOnly := regexp.MustCompile(`(?s)# dictionaries:\n  # - \{.*rules: # none.*      # - name: user-glide\n      #   key: "user:\*"\n      #   type: \[string\]\n      #   setting: zstd-3\n      #   dictionary: user-glide\n      #   format: glide\n`)
	text, files, err := rep.Config(WriteOptions{Listen: "127.0.0.1:0", Upstream: "redis://localhost", Base: "x"})
	if err != nil || len(files) != 1 || !foreignRulesOnly.Match(text) {
		t.Errorf("%v, %d files\n%s", err, len(files), text)
	}
	if s := rep.lead(); strings.Contains(s, "nothing worth") || !strings.Contains(s, "1 group") {
		t.Error(s)
	}
	if words := rep.Groups[0].libraryWords(); !strings.Contains(words, "then cinch pack. All of 200 values sampled decompress. All of 100 tried are restored byte for byte.") {
		t.Error(words)
	}
	if rep.After != rep.Now {
		t.Errorf("%d bytes after, %d now", rep.After, rep.Now)
	}
}

// All vectors of libraries that have a header are recognized, and described.
func TestVectorsAreForeign(t *testing.T) {
	files, err := filepath.Glob("../../../envelope/clientformat/testdata/*.bin")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	want, err := os.ReadFile("../../../envelope/clientformat/testdata/value.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		held, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		v := openValue(held, len(want))
		if f, ok := clientformat.Recognise(held); !ok || filepath.Base(name) == "lzf.bin" {
			if v.format != 0 {
				t.Errorf("%s is taken for %v", name, v.format)
			}
			continue
		} else if v.format != f || !bytes.Equal(v.content, want) {
			t.Errorf("%s: %v, %d bytes", name, v.format, len(v.content))
		}
		if x := (&Foreign{Format: v.format.String()}); strings.HasPrefix(x.writer(), "as ") {
			t.Errorf("%v has no writer", v.format)
		}
		if v := openValue(held, len(want)-1); v.format != 0 {
			t.Errorf("%s decompresses above the limit", name)
		}
	}
}

// Values that decompress to more than the limit are not decompressed all at once.
func TestForeignBombs(t *testing.T) {
	bomb := django(make([]byte, 12<<20))
	s := &sample{keep: 1}
	for i := range 50 {
		s.add(bomb, eitherSide, 1-float64(i)/100)
	}
	o := s.open(t.Context())
	if n := o.formats[clientformat.Zlib]; n != 3 || len(o.values) != 3 {
		t.Errorf("%d of %d opened, %d tried", n, len(s.values), len(o.values))
	}
}

// Groups are compared by the content that libraries have compressed, because the compressed bytes of different
// kinds are similar.
func TestForeignKindsStayApart(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	names := []string{"html", "session", "log", "document"}
	for _, opens := range []bool{false, true} {
		c := NewCollector(CollectOptions{Cost: RedisCost, Foreign: opens})
		for i := range 2000 {
			name := fmt.Appendf(nil, "%s:%d", string(rune('a'+i%20))+"x", i)
			if ticket := c.Offer("0", name); ticket.Read {
				c.Value("0", name, "string", ticket, glide(kinds[names[i%20%4]](r)))
			}
		}
		c.MergeSimilar(codec.New(codec.Options{}))
		if got := len(patternsOf(c)); opens != (got == 20) {
			t.Errorf("opens %v: %d patterns", opens, got)
		}
	}
}
