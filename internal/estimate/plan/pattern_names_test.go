package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/policy"
)

// packageNames returns names as in registries: with joints, scopes and digits.
func packageNames(r *rand.Rand, n int) (all []string) {
	word := func() string { return words[r.IntN(len(words))] }
	for len(all) < n {
		name := word() + word()[:2] + string(rune('a'+len(all)%26))
		switch r.IntN(5) {
		case 0:
			name = word() + "-" + name
		case 1:
			name = "@" + word() + "/" + name
		case 2:
			name = name + "." + word()
		case 3:
			name += fmt.Sprint(r.IntN(40))
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// manifest returns a package's metadata: its own words, as long as the package is large, with little in
// common with others.
func manifest(r *rand.Rand, name string, own []string, n int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `{"name":%q,"version":"1.%d.0","dist":{"shasum":"%016x%016x"},"readme":"`, name, n, r.Uint64(), r.Uint64())
	for range len(own) {
		b.WriteString(own[r.IntN(len(own))] + " ")
	}
	return []byte(b.String() + `"}`)
}

// Names in the middle of keys become one pattern, whatever separators they contain and however their values
// differ. The pattern also covers new names. A kind of data that holds much of the bytes stays apart.
func TestNamesInTheMiddleAreOnePattern(t *testing.T) {
	r := rand.New(rand.NewPCG(34, 31))
	names := packageNames(r, 80)
	for _, c := range []struct {
		what string
		name func(name string, n int) string
		want []string
	}{
		{"name and number", func(name string, n int) string { return fmt.Sprintf("npm:pkg:%s:%d", name, n) }, []string{"npm:pkg:*:*"}},
		{"name and word", func(name string, n int) string {
			return fmt.Sprintf("npm:pkg:%s:%s", name, []string{"meta", "time"}[n%2])
		}, []string{"npm:pkg:*:meta", "npm:pkg:*:time"}},
		{"path", func(name string, n int) string {
			return fmt.Sprintf("cache/pkg/%s/%d.json", strings.Trim(strings.ReplaceAll(name, "/", "-"), "@"), n)
		}, []string{"cache/pkg/*/*.json"}},
	} {
		col := NewCollector(CollectOptions{})
		type kv struct {
			key   string
			value []byte
		}
		var all []kv
		for _, name := range names {
			own := make([]string, 20+r.IntN(400))
			for i := range own {
				own[i] = fmt.Sprintf("%x", noise(r, 1+r.IntN(4)))
			}
			for n := range 20 {
				all = append(all, kv{c.name(name, n), manifest(r, name, own, n)})
			}
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, x := range all {
			if ticket := col.Offer("", []byte(x.key)); ticket.Read {
				col.Value("", []byte(x.key), "string", ticket, x.value)
			}
		}
		col.MergeSimilar(codec.New(codec.Options{}))
		if got := patternsOf(col); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d patterns, %.600q", c.what, len(got), got)
		}
		var seen int64
		col.trees[""].patterns(func(_ string, l *leaf) { seen += l.seen })
		if seen != int64(len(all)) {
			t.Errorf("%s: %d names counted, %d offered", c.what, seen, len(all))
		}
	}

	col := NewCollector(CollectOptions{})
	for i := range 4000 {
		key, value := fmt.Sprintf("shop:%s:item:%d", names[i%len(names)], i), []byte(order(r))
		if i%4 == 0 {
			key, value = fmt.Sprintf("shop:thumbnails:item:%d", i), noise(r, 400)
		}
		if ticket := col.Offer("", []byte(key)); ticket.Read {
			col.Value("", []byte(key), "string", ticket, value)
		}
	}
	col.MergeSimilar(codec.New(codec.Options{}))
	if got := patternsOf(col); !slices.Equal(got, []string{"shop:*:item:*", "shop:thumbnails:item:*"}) {
		t.Errorf("one kind with a quarter of the names: %q", got)
	}
}

// No rule is written for a group that was not measured, so a wider rule may cover it. It never gets the setting raw.
func TestWhatWasNotMeasuredFallsUnderTheWiderRule(t *testing.T) {
	chosen := func(pattern string) *GroupPlan {
		c, err := ParseCandidate("zstd-3")
		if err != nil {
			t.Fatal(err)
		}
		return &GroupPlan{Pattern: pattern, Type: "string", Values: 10, Now: 1000, Options: []Option{{Name: "zstd-3", After: 500, candidate: c}}}
	}
	late := &GroupPlan{Pattern: "pkg:left:*", Type: "string", Values: 10, Now: 1000, Best: -1}
	late.notMeasured(timeWasUp)
	alone := &GroupPlan{Pattern: "pkg:noise:*", Type: "string", Values: 10, Now: 1000, Choice: -1, Best: -1, Why: "compression saves less than 5%"}
	p, err := price.Default()
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Protocol: "redis", Prices: p, Groups: []*GroupPlan{chosen("pkg:*"), late, alone}}
	r.finish()
	text, files, err := r.Config(WriteOptions{Listen: "127.0.0.1:0", Upstream: "redis://localhost", Base: "x"})
	if err != nil {
		t.Fatal(err)
	}
	pol, _ := policyOf(t, text, files)
	for key, want := range map[string]string{"pkg:left:1": "zstd-3", "pkg:any:1": "zstd-3", "pkg:noise:1": "raw"} {
		rule := pol.Lookup(policy.Address{Space: "0", Key: []byte(key), Type: policy.String, Size: 1000})
		got := "raw"
		if rule != nil && !rule.Raw() {
			got = rule.Setting.String()
		}
		if got != want {
			t.Errorf("%s gets %s, want %s:\n%s", key, got, want, text)
		}
	}
}
