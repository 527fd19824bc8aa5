package dictionary

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/published"
)

// policyOf returns a policy with the given rule and a rule with a managed dictionary.
func policyOf(t *testing.T, first policy.Rule) *policy.Policy {
	t.Helper()
	p, err := policy.New(policy.Options{Exclude: []string{"lock:*"}, Rules: []policy.Rule{
		first, {Name: "docs", Key: "doc:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Auto: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPolicyIsPublished(t *testing.T) {
	store := newShared()
	raw := policy.Rule{Name: "notes", Key: "note:*", Types: policy.Hash}
	rules := policyOf(t, raw)
	p := publisher{o: optionsForTest(Options{Store: store, By: "a"})}
	p.step(t.Context(), rules)
	var doc map[string]any
	if err := json.Unmarshal([]byte(store.published), &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc, "at")
	auto := rules.Rules()[1]
	want := `{"by":"a","exclude":["lock:*"],"format":1,"rules":[` +
		`{"codec":"raw","key":"note:*","min_gain":0.1,"min_size":0,"name":"notes","types":["hash"]},` +
		`{"codec":"zstd","key":"doc:*","level":3,"min_gain":0.1,"min_size":64,"name":"docs","record":"` + Fingerprint(auto) + `","types":["string","hash"]}]}`
	if got, _ := json.Marshal(doc); string(got) != want {
		t.Errorf("published:\n%s\nwant:\n%s", got, want)
	}
}

// Gateways compress values under a rule with to: plain in a way that libraries don't support. So libraries, older
// versions too, compress nothing under it, and refuse commands that compute on values that may be envelopes.
func TestRuleToPlainIsPublished(t *testing.T) {
	rules := policyOf(t, policy.Rule{
		Name: "web", Key: "web:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 9}, Formats: []clientformat.Format{clientformat.Zlib}, ToPlain: true,
	})
	p, err := publish(rules).Policy(func(*published.Rule) policy.Choice { return policy.Choice{} })
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 50, 64 << 20} {
		r := p.Lookup(policy.Address{Space: "0", Key: []byte("web:1"), Type: policy.String, Size: size})
		if r == nil || r.Name != "web" || !r.Compresses() || r.MinGain < published.Disabled || r.SavesEnough(policy.String, size, 12) {
			t.Errorf("%d bytes: %+v", size, r)
		}
	}
}

// The store keeps the policy of the gateway that was started or reloaded last. Other gateways don't overwrite it.
func TestLastPolicyHolds(t *testing.T) {
	store := newShared()
	one, two := policyOf(t, policy.Rule{Name: "one"}), policyOf(t, policy.Rule{Name: "two"})
	a, b := publisher{o: optionsForTest(Options{Store: store, By: "a"})}, publisher{o: optionsForTest(Options{Store: store, By: "b"})}
	for i, step := range []struct {
		p     *publisher
		rules *policy.Policy
		says  *policy.Policy
		more  uint64 // versions
	}{
		{&a, one, one, 1},
		{&a, one, one, 0},
		{&b, two, two, 1}, // b starts
		{&a, one, two, 0},
		{&b, two, two, 0},
		{&a, two, two, 0}, // a is reloaded with the policy that holds already
		{&a, one, one, 1}, // and with another one
		{&b, two, one, 0},
	} {
		before := store.publishedVersion
		step.p.step(t.Context(), step.rules)
		if recordText(store.published) != comparableText(publish(step.says)) || store.publishedVersion != before+step.more {
			t.Fatalf("step %d: version %d after %d: %s", i, store.publishedVersion, before, store.published)
		}
	}
	store.published, store.publishedVersion = "", 0 // as after FUNCTION FLUSH
	b.step(t.Context(), two)
	if recordText(store.published) != comparableText(publish(two)) {
		t.Error("not put back:", store.published)
	}
}

// A gateway that has published a policy replaces it when a reload leaves no rule with a managed dictionary.
// Otherwise libraries would use the old rules for ever.
func TestPolicyIsTakenBack(t *testing.T) {
	store := newShared()
	auto := policyOf(t, policy.Rule{Name: "one"})
	plain, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "all"}}})
	if err != nil {
		t.Fatal(err)
	}
	p := publisher{o: optionsForTest(Options{Store: store})}
	p.step(t.Context(), auto)
	for range 2 {
		p.step(t.Context(), plain)
		if recordText(store.published) != comparableText(publish(plain)) || store.publishedVersion != 2 {
			t.Fatal(store.publishedVersion, store.published)
		}
	}
	store.published, store.publishedVersion = "", 0
	p.step(t.Context(), plain)
	if store.published != "" {
		t.Error("put back:", store.published)
	}
}

// Without managed dictionaries nothing is kept in the store, and its errors don't matter.
func TestPolicyThatIsNotPublished(t *testing.T) {
	store := newShared()
	plain, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "all", Setting: codec.Setting{Codec: codec.LZ4}}}})
	if err != nil {
		t.Fatal(err)
	}
	p := publisher{o: optionsForTest(Options{Store: store})}
	p.step(t.Context(), nil)
	p.step(t.Context(), plain)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	p.step(gone, plain)
	if store.published != "" {
		t.Error(store.published)
	}
}
