package dictionary

import (
	"fmt"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// withLogins returns an activePolicy with one rule, for which nothing is trained.
func withLogins(t *testing.T, shared bool) (*activePolicy, *policy.Rule) {
	t.Helper()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "docs", Key: "doc:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Auto: true, Shared: shared},
	}})
	if err != nil {
		t.Fatal(err)
	}
	m := newActivePolicy(optionsForTest(Options{}))
	m.SetRules(Rules{Policy: p, RuleMemory: 1 << 20})
	return m, p.Rules()[0]
}

func TestSamplesOfLoginsAreApart(t *testing.T) {
	for _, shared := range []bool{false, true} {
		m, rule := withLogins(t, shared)
		for i, login := range []string{"", "alice", "bob"} {
			for range 10 * (i + 1) {
				m.Sample(rule, login, []byte("doc:1"), []byte("a value of "+login), 20)
			}
		}
		var got []string
		for _, r := range m.all() {
			got = append(got, fmt.Sprint(Label(r.rule().Name, r.login), " ", len(r.sampler.Values())))
		}
		want := "[docs 10 docs@alice 20 docs@bob 30]"
		if shared {
			want = "[docs 60]"
		}
		if fmt.Sprint(got) != want {
			t.Errorf("shared %t: %v, want %s", shared, got, want)
		}
	}
}

func TestLoginsAreBounded(t *testing.T) {
	m, rule := withLogins(t, false)
	for i := range 3 * maxOtherLogins {
		m.Sample(rule, fmt.Sprint("user", i), nil, make([]byte, 1000), 500)
	}
	if n := len(m.all()); n != MaxLogins {
		t.Errorf("%d logins have samples", n)
	}
	if n := len(*m.samplers.Load()); n != MaxLogins+maxOtherLogins {
		t.Errorf("%d logins are remembered", n)
	}
	total := 0
	for _, r := range m.all() {
		for range 2000 {
			m.Sample(rule, r.login, nil, make([]byte, 1000), 500)
		}
		_, memory := r.sampler.Size()
		total += memory
	}
	if total > 1<<20 {
		t.Errorf("samples take %d bytes, the rule may take 1 MiB", total)
	}
}

// Logins under other rules, with and without dictionaries, don't take a login's own dictionary.
func TestLoginsAreBoundedByRule(t *testing.T) {
	var rules []policy.Rule
	for i := range 200 {
		rules = append(rules, policy.Rule{
			Name: fmt.Sprint("rule", i), Key: fmt.Sprint(i, ":*"), Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Auto: true,
		})
	}
	p, err := policy.New(policy.Options{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	m := newActivePolicy(optionsForTest(Options{}))
	m.SetRules(Rules{Policy: p, RuleMemory: 1 << 20})
	for i := range 2 * maxOtherLogins {
		m.Sample(p.Rules()[0], fmt.Sprint("user", i), nil, make([]byte, 100), 50)
	}
	for _, rule := range p.Rules()[1:] {
		for i := range MaxLogins + 1 {
			m.Sample(rule, fmt.Sprint("user", i), nil, make([]byte, 100), 50)
		}
	}
	if n := len(m.all()); n != len(rules)*MaxLogins {
		t.Errorf("%d logins have samples", n)
	}
	if n := len(*m.samplers.Load()); n != len(rules)*MaxLogins+maxOtherLogins {
		t.Errorf("%d logins are remembered", n)
	}
}

// Each login uses its own dictionary, and other logins use none.
func TestChoicesOfLogins(t *testing.T) {
	d, err := dictForTest()
	if err != nil {
		t.Fatal(err)
	}
	m, rule := withLogins(t, false)
	m.Sample(rule, "alice", nil, []byte("value"), 5)
	alice := m.all()[1]
	m.use(alice, choice{dict: d, level: 1})
	in := func(login string) codec.Setting { return m.Policy().Rules()[0].SettingFor(login) }
	with, without := codec.Setting{Codec: codec.Zstd, Level: 1, Dict: d.Number()}, codec.Setting{Codec: codec.Zstd, Level: 3}
	if in("alice") != with || in("bob") != without || in("") != without || m.Policy().Rules()[0].Setting != without {
		t.Errorf("alice %v, bob %v, default %v, any login %v", in("alice"), in("bob"), in(""), m.Policy().Rules()[0].Setting)
	}
	m.Sample(rule, "bob", nil, []byte("value"), 5)
	m.reapply()
	if in("alice") != with || in("bob") != without || m.Policy().Rules()[0].Setting != without {
		t.Errorf("two write: alice %v, bob %v, any login %v", in("alice"), in("bob"), m.Policy().Rules()[0].Setting)
	}
	// A reload keeps the logins that have joined, and removes them if samples are shared.
	m.SetRules(m.rules)
	if n := len(m.all()); n != 3 || in("alice") != with {
		t.Errorf("after a reload %d, alice %v", n, in("alice"))
	}
	shared := *rule
	shared.Shared = true
	p, err := policy.New(policy.Options{Rules: []policy.Rule{shared}})
	if err != nil {
		t.Fatal(err)
	}
	m.SetRules(Rules{Policy: p})
	if n := len(m.all()); n != 1 || in("alice").Dict != 0 || Fingerprint(rule) == Fingerprint(&shared) {
		t.Errorf("shared: %d, alice %v", n, in("alice"))
	}
}
