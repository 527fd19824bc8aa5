package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/bench/corpora"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/redis"
)

// byHand lists dictionaries that an expert user of zstd would train: with its default trainer, which tries
// some parameters, at four sizes, and with its slower trainer and the parameters that its authors found best
// on average.
var byHand = []struct {
	name string
	args []string
}{
	{"16 KB", []string{"--train", "--maxdict=16384"}},
	{"32 KB", []string{"--train", "--maxdict=32768"}},
	{"64 KB", []string{"--train", "--maxdict=65536"}},
	{"110 KB", []string{"--train"}},
	{"110 KB cover", []string{"--train-cover=k=256,d=8"}},
}

func newEngine() *codec.Engine {
	z, ok := libzstd.New()
	if !ok {
		panic("libzstd is needed: build with cgo")
	}
	return codec.New(codec.Options{Zstd: z})
}

// sealedBytes returns the size of values and of their envelopes, compressed by zstd with d, at level 3 or, if
// level is positive, at that level.
func sealedBytes(d *codec.Dict, level int, values [][]byte) (raw, sealed int, err error) {
	st, o := codec.Setting{Codec: codec.Zstd, Level: 3}, envelope.SealerOptions{Engine: newEngine()}
	if level > 0 {
		st.Level = level
	}
	if d != nil {
		held := newMemory()
		_ = held.Publish(context.Background(), d)
		st.Dict, o.Dicts = d.Number(), held
	}
	s := envelope.NewSealer(o)
	var got, opened []byte
	for _, v := range values {
		got = s.Seal(got[:0], v, st, nil)
		if opened, err = s.Open(opened[:0], got); err != nil || string(opened) != string(v) {
			return 0, 0, fmt.Errorf("decompress a value: %w", err)
		}
		raw, sealed = raw+len(v), sealed+len(got)
	}
	return raw, sealed, nil
}

// trainByHand runs zstd's command in its five ways. An entry is nil if training fails.
func trainByHand(c *corpus) (all []*codec.Dict, err error) {
	for i := range byHand {
		content, err := corpora.TrainZstd(c.learn, byHand[i].args...)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s, %s: %v\n", c.name, byHand[i].name, err)
			all = append(all, nil)
			continue
		}
		d, err := codec.NewDict(content)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// share is the trainer's share of a core. The result does not depend on it, and the default would take twice
// as long.
const share = 1

// manyTimes is the size of the simulated store as a multiple of the samples', large enough that no dictionary
// costs too much.
const manyTimes = 1000

// trained is a dictionary that a gateway has chosen, nil for none, the level that it would use, and the CPU time of its
// training.
type trained struct {
	dict  *codec.Dict
	level int
	cpu   time.Duration
}

// auto returns what a gateway would choose after seeing all values, for a store of times as many.
func auto(c *corpus, times float64) (trained, error) {
	return choose(c.name, c.learn, func(m *dictionary.Manager) {
		m.TrainOnce(context.Background(), times, func(string) {})
	})
}

// firstValues is the number of values of a gateway's first training.
const firstValues = 100

// first returns what a gateway would choose first, after a hundred values.
func first(c *corpus) (trained, error) {
	some := make([][]byte, firstValues)
	for i, at := range rand.New(rand.NewPCG(1, 1)).Perm(len(c.learn))[:firstValues] {
		some[i] = c.learn[at]
	}
	return choose(c.name, some, func(m *dictionary.Manager) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		go m.Run(ctx)
		for ctx.Err() == nil && m.Policy().Rules()[0].Setting.Dict == 0 {
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func policyFor(rule string) (*policy.Policy, error) {
	return policy.New(policy.Options{Rules: []policy.Rule{{Name: rule, Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Auto: true}}})
}

// choose returns the dictionary that a manager has in force after train.
func choose(rule string, values [][]byte, train func(*dictionary.Manager)) (t trained, err error) {
	p, err := policyFor(rule)
	if err != nil {
		return t, err
	}
	held := newMemory()
	trainer := dictionary.NewTrainer(dictionary.TrainerOptions{NewEngine: newEngine, External: libzstd.Train, Share: share})
	m := dictionary.New(dictionary.Options{
		By: "bench", Store: held, Apply: func(*policy.Policy) {}, Log: slog.New(slog.DiscardHandler), Trainer: trainer,
	})
	m.SetRules(dictionary.Rules{Policy: p})
	for i, v := range values {
		m.Sample(p.Rules()[0], "", fmt.Append(nil, i), v, len(v))
	}
	train(m)
	st := m.Policy().Rules()[0].Setting
	t.level, t.cpu = st.Level, trainer.Worked()
	if st.Dict != 0 {
		t.dict, err = held.Dictionary(st.Dict)
	}
	return t, err
}

// memory is a store of dictionaries in memory.
type memory struct {
	store.Dicts // not called

	mu      sync.Mutex
	dicts   map[uint32]*codec.Dict
	records map[string]string
	version uint64
}

func newMemory() *memory {
	return &memory{dicts: map[uint32]*codec.Dict{}, records: map[string]string{}}
}

func (m *memory) Dictionary(number uint32) (*codec.Dict, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.dicts[number]; d != nil {
		return d, nil
	}
	return nil, envelope.ErrDictMissing
}

func (m *memory) Publish(_ context.Context, dicts ...*codec.Dict) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range dicts {
		m.dicts[d.Number()] = d
	}
	return nil
}

func (m *memory) Ready(number uint32) bool {
	_, err := m.Dictionary(number)
	return err == nil
}

func (m *memory) DictCost(d *codec.Dict) float64 { return redis.DictCost(d) }

func (m *memory) Retired(uint32) bool { return false }

func (m *memory) Recheck(context.Context) error { return nil }

func (m *memory) Record(_ context.Context, name string) (string, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.records[name], m.version, nil
}

func (m *memory) ReplaceRecord(_ context.Context, name string, version uint64, text string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if version != m.version {
		return 0, nil
	}
	m.version++
	m.records[name] = text
	return m.version, nil
}
