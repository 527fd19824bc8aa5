package shadow

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The self-test finds the planted faults between equal targets. It fails if the targets differ, if one does
// not answer, and if the slowdown can't be told from noise. It removes what it has written.
func TestSelfTest(t *testing.T) {
	steady := func(seed uint64) func() time.Duration {
		random := rand.New(rand.NewPCG(seed, 2))
		return func() time.Duration { return time.Millisecond + time.Duration(random.IntN(50_000)) }
	}
	random := rand.New(rand.NewPCG(3, 2))
	for name, c := range map[string]struct {
		change func(control, test *kvServer)
		want   string // of the error
	}{
		"both are alike":                {func(_, _ *kvServer) {}, ""},
		"a target loses writes":         {func(control, _ *kvServer) { control.loses = 1 }, "answer differently"},
		"a target answers otherwise":    {func(_, test *kvServer) { test.wrong = 1 }, "answer differently"},
		"a target does not take writes": {func(_, test *kvServer) { test.dies = 1 }, "does not answer"},
		"latencies are all over the place": {func(_, test *kvServer) {
			test.took = func() time.Duration { return time.Duration(1e6 * math.Exp(5*random.NormFloat64())) }
		}, "too noisy"},
	} {
		kv := newKV()
		kv.servers[control].took, kv.servers[test].took = steady(1), steady(2)
		c.change(kv.servers[control], kv.servers[test])
		r := New(Config{Protocol: kv, SelfTestPairs: selfTestLeast})
		err := r.SelfTest(t.Context())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, not %q", name, err, c.want)
		}
		if r.tested.Load() != (err == nil) {
			t.Errorf("%s: the report would say that it was done: %v", name, r.tested.Load())
		}
		for i, s := range kv.servers {
			if len(s.texts) > 0 {
				t.Errorf("%s: target %d still has %v", name, i, s.texts)
			}
		}
	}
}
