package dictionary

import (
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
)

// The choice for a rule stays in force through a reload, even if the rule is renamed. It ends with the rule,
// and a choice for a removed rule changes nothing.
func TestChoicesSurviveReloads(t *testing.T) {
	var applied []*policy.Policy
	f := newActivePolicy(optionsForTest(Options{Apply: func(p *policy.Policy) { applied = append(applied, p) }}))
	f.SetRules(Rules{Policy: autoPolicy(t)})
	d, err := dictForTest()
	if err != nil {
		t.Fatal(err)
	}
	r := f.all()[0]
	f.use(r, choice{dict: d})
	if len(applied) != 2 || applied[1] != f.Policy() || f.Policy().Rules()[0].SettingFor("").Dict != d.Number() {
		t.Fatalf("%d policies, %v", len(applied), f.Policy().Rules()[0].Setting)
	}
	renamed := *autoPolicy(t).Rules()[0]
	renamed.Name = "papers"
	p, err := policy.New(policy.Options{Rules: []policy.Rule{renamed}})
	if err != nil {
		t.Fatal(err)
	}
	f.SetRules(Rules{Policy: p})
	if f.all()[0] != r || r.rule().Name != "papers" || f.Policy().Rules()[0].SettingFor("").Dict != d.Number() {
		t.Error("the dictionary of a rule that got another name is gone")
	}
	s := f.Status()
	if len(s) != 2 || s[0].Rule != "docs" || s[0].Active || s[0].Number != 0 || s[1].Rule != "papers" || !s[1].Active || s[1].Number != d.Number() {
		t.Errorf("%+v", s)
	}
	f.SetRules(Rules{Policy: p, NoSample: map[string][]string{"papers": {"secret:*"}}})
	if got := f.all()[0]; got == r || !got.current.is(d.Number()) {
		t.Error("less may be sampled, and the sample is the old one, or the dictionary gone")
	}
	before := len(applied)
	if f.use(r, choice{}); len(applied) != before {
		t.Error("what is managed no more is put into force")
	}
}

func TestLookedIsForAllRules(t *testing.T) {
	f, rule := withLogins(t, false)
	f.Sample(rule, "alice", nil, []byte("value"), 5)
	all := f.all()
	f.countRead(all[0], enoughReads)
	for range enoughReads {
		if f.Ready() {
			t.Error("no gateway has looked for alice")
		}
		f.countRead(all[1], 1)
	}
	if !f.Ready() {
		t.Error("it is not enough to have looked")
	}
}

func TestSampleIsCheap(t *testing.T) {
	m := New(Options{Apply: func(*policy.Policy) {}})
	m.SetRules(Rules{Policy: autoPolicy(t), RuleMemory: 64 << 10})
	rule := m.Policy().Rules()[0]
	key, value := []byte("doc:1"), make([]byte, 300)
	for range 100_000 {
		m.Sample(rule, "", key, value, 100)
	}
	if n := testing.AllocsPerRun(1000, func() { m.Sample(rule, "", key, value, 100) }); n > 0.1 {
		t.Errorf("%v allocations a value", n)
	}
}

func BenchmarkSample(b *testing.B) {
	m := New(Options{Apply: func(*policy.Policy) {}})
	m.SetRules(Rules{Policy: autoPolicy(b)})
	rule := m.Policy().Rules()[0]
	key, value := []byte("doc:1"), make([]byte, 300)
	for b.Loop() {
		m.Sample(rule, "", key, value, 100)
	}
}
