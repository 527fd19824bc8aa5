package dictionary

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// fault is a way in which calls fail while a gateway is cut off from its store.
type fault string

const (
	fails    fault = "fails"           // nothing is done
	hangs    fault = "hangs"           // nothing is done, and there is no answer
	loses    fault = "loses an answer" // it is done, and there is no answer
	noFaults       = 1 << 30
)

// faulty is a store that fails all calls after the first ones.
type faulty struct {
	store.Dicts
	how   fault
	after int64 // number of calls that succeed before
	asked atomic.Int64
}

var errCut = errors.New("cut off")

// meet calls do. Once the store is cut off, it fails as f.how says.
func (f *faulty) meet(ctx context.Context, do func() error) error {
	n := f.asked.Add(1)
	switch {
	case n <= f.after:
		return do()
	case f.how == loses && n == f.after+1:
		_ = do()
	case f.how == hangs:
		<-ctx.Done()
	}
	return errCut
}

func (f *faulty) Dictionary(number uint32) (d *codec.Dict, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err = f.meet(ctx, func() error {
		d, err = f.Dicts.Dictionary(number)
		return err
	})
	return d, err
}

// Publish, when cut off, still leaves the dictionary in the gateway's memory, so that values could name it.
func (f *faulty) Publish(ctx context.Context, dicts ...*codec.Dict) error {
	err := f.meet(ctx, func() error { return f.Dicts.Publish(ctx, dicts...) })
	if errors.Is(err, errCut) {
		cut, cancel := context.WithCancel(ctx)
		cancel()
		_ = f.Dicts.Publish(cut, dicts...)
	}
	return err
}

func (f *faulty) Record(ctx context.Context, name string) (text string, version uint64, err error) {
	err = f.meet(ctx, func() (err error) {
		text, version, err = f.Dicts.Record(ctx, name)
		return err
	})
	return text, version, err
}

func (f *faulty) ReplaceRecord(ctx context.Context, name string, version uint64, text string) (next uint64, err error) {
	err = f.meet(ctx, func() (err error) {
		next, err = f.Dicts.ReplaceRecord(ctx, name, version, text)
		return err
	})
	if err != nil {
		return 0, err
	}
	return next, nil
}

// gatewayInTest is a manager with a separate faulty store, and writes values like a gateway.
type gatewayInTest struct {
	*Manager
	store  *faulty
	policy atomic.Pointer[policy.Policy]
	sealer *envelope.Sealer
}

type faultTest struct {
	addr    string
	results []result // of the trainings of each gateway
	samples [][]byte
}

func newFaultTest(t *testing.T) *faultTest {
	f := &faultTest{addr: testenv.Redis(t).Addr, samples: documents(300, 0)}
	for i := range 3 { // three different dictionaries that save about as much
		d, err := dict.Train(documents(300+i, 0), dict.TrainOptions{Size: 4 << 10, Segment: 128})
		if err != nil {
			t.Fatal(err)
		}
		f.results = append(f.results, result{dict: d, algorithm: "cover", before: 0.9, promised: 0.4, values: 150})
	}
	return f
}

func (f *faultTest) gateway(t *testing.T, i int, rules *policy.Policy, how fault, after int64) *gatewayInTest {
	client := goredis.NewClient(&goredis.Options{Addr: f.addr, DisableIdentity: true})
	t.Cleanup(func() { _ = client.Close() })
	dicts := storeredis.NewDicts(storeredis.DictsOptions{Client: client, Log: slog.New(slog.DiscardHandler), MissTTL: 10 * time.Millisecond})
	g := &gatewayInTest{store: &faulty{Dicts: dicts, how: how, after: after}}
	g.sealer = envelope.NewSealer(envelope.SealerOptions{Dicts: dicts})
	g.Manager = New(Options{
		By: fmt.Sprint("gateway ", i), Store: g.store, Trainer: NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1}),
		Apply:      func(p *policy.Policy) { g.policy.Store(p) },
		MinSamples: 200, Interval: time.Millisecond, Poll: 4 * time.Millisecond, Lease: 60 * time.Millisecond, Timeout: 40 * time.Millisecond,
		train: func(context.Context, task) result { return f.results[i] },
	})
	g.SetRules(Rules{Policy: rules})
	for _, v := range f.samples {
		g.Sample(rules.Rules()[0], "", []byte("doc:1"), v, len(v))
	}
	return g
}

// write seals a value with the gateway's current policy, and returns the dictionary's number.
func (g *gatewayInTest) write(value []byte) uint32 {
	st := g.policy.Load().Rules()[0].Setting
	if st.Dict != 0 && !g.store.Ready(st.Dict) {
		st.Dict = 0
	}
	h, err := envelope.ParseHeader(g.sealer.Seal(nil, value, st, nil))
	if err != nil {
		return 0
	}
	return h.Dict
}

// resolve looks up a dictionary as a newly started reader does.
func (f *faultTest) resolve(t *testing.T, number uint32) {
	client := goredis.NewClient(&goredis.Options{Addr: f.addr, DisableIdentity: true})
	defer client.Close()
	d := storeredis.NewDicts(storeredis.DictsOptions{Client: client, Log: slog.New(slog.DiscardHandler)})
	if _, err := d.Dictionary(number); err != nil {
		t.Errorf("a value names %08x: %v", number, err)
	}
}

// Three gateways train concurrently, and one is cut off from the store, at each step in turn and in each way.
// No value names a dictionary that a reader can't find, and the others agree.
func TestCutOffAtEachStep(t *testing.T) {
	f := newFaultTest(t)
	round := 0
	for _, how := range []fault{fails, hangs, loses} {
		for after := range int64(9) {
			round++
			t.Run(fmt.Sprint(how, " after ", after), func(t *testing.T) { f.run(t, round, how, after) })
		}
	}
}

func (f *faultTest) run(t *testing.T, round int, how fault, after int64) {
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "docs", Key: fmt.Sprintf("doc:%d:*", round), Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Auto: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	var gateways []*gatewayInTest
	for i := range 3 {
		g := f.gateway(t, i, rules, how, after)
		if i > 0 {
			g.store.after = noFaults
		}
		gateways = append(gateways, g)
		all.Go(func() { g.Run(ctx) })
	}
	found := map[uint32]bool{0: true}
	agreed := 0
	testenv.Eventually(t, "the others agree", func() bool {
		var numbers [3]uint32
		for i, g := range gateways {
			numbers[i] = g.write(f.samples[0])
			if !found[numbers[i]] {
				f.resolve(t, numbers[i])
				found[numbers[i]] = true
			}
		}
		if agreed++; numbers[1] != numbers[2] || numbers[1] == 0 {
			agreed = 0
		}
		return agreed == 8
	})
}

// Without faults one gateway trains, and the others adopt.
func TestGatewaysConverge(t *testing.T) {
	f := newFaultTest(t)
	rules := autoPolicy(t)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for i := range f.results {
		f.results[i].level = 2
	}
	var gateways []*gatewayInTest
	for i := range 3 {
		g := f.gateway(t, i, rules, fails, noFaults)
		g.o.Lease, g.o.Timeout = time.Minute, 10*time.Second // a slow machine must not count as a fault
		g.all()[0].monitor.schedule.interval = time.Hour     // no thorough training follows
		gateways = append(gateways, g)
		all.Go(func() { g.Run(ctx) })
	}
	testenv.Eventually(t, "they agree", func() bool {
		a, b, c := gateways[0].write(f.samples[0]), gateways[1].write(f.samples[0]), gateways[2].write(f.samples[0])
		return a == b && b == c && a != 0
	})
	var rollouts, adopted uint64
	for _, g := range gateways {
		s := g.Status()[0]
		rollouts, adopted = rollouts+s.Rollouts, adopted+s.Adopted
		if s.Rule != "docs" || !s.Active || s.Version.By == "" || s.Promised == 0 {
			t.Errorf("%+v", s)
		}
		if st := g.Policy().Rules()[0].Setting; st.Level != 2 || s.Version.Setting != "zstd-2" {
			t.Errorf("sealed by %s, announced as %s", st, s.Version.Setting)
		}
		fast := *rules.Rules()[0] // the rule now allows no more than level 1 here
		fast.Setting.Level = 1
		p, err := policy.New(policy.Options{Rules: []policy.Rule{fast}})
		if err != nil {
			t.Fatal(err)
		}
		g.SetRules(Rules{Policy: p})
		if st := g.Policy().Rules()[0].Setting; st.Level != 1 || st.Dict == 0 {
			t.Errorf("after a reload sealed by %s", st)
		}
	}
	if rollouts != 1 || adopted != 2 {
		t.Errorf("%d rolled out, %d adopted", rollouts, adopted)
	}
}
