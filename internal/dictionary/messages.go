package dictionary

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// MessagesOptions configure a Messages. Without a Trainer nothing is trained. Zero fields have the defaults
// of [Options].
type MessagesOptions struct {
	Trainer *Trainer
	Log     *slog.Logger

	Memory     int // bytes for all samples; 0: 8 MiB
	MaxDict    int // bytes of a dictionary, since each is sent on many connections; 0: no limit
	MinSamples int
	MinSaving  float64
	Drift      float64
	Interval   time.Duration
	Poll       time.Duration
}

// Limits. They are needed because clients choose the names of methods.
const (
	MaxMessageSample = 16 << 10 // bytes; longer messages gain nothing from a dictionary
	maxKindMemory    = 1 << 20  // bytes for the sample of one kind
	maxKinds         = 64
	maxMessageDicts  = 16  // kinds with a dictionary
	maxMethod        = 512 // bytes of a method's name
	kindIdle         = time.Minute
)

// Messages manages dictionaries for the messages that one gateway sends, as Manager does for stored values. But it
// stores nothing, and does not coordinate with other gateways. It also counts messages for which no dictionary is
// trained.
type Messages struct {
	o       Options // only the fields in MessagesOptions are used
	maxDict int

	mu     sync.Mutex
	memory int
	kinds  map[KindName]*Kind
}

// KindName identifies a kind of messages, which has its own dictionary.
type KindName struct {
	Method    string // "/package.Service/Method"
	Direction policy.Direction
	Rule      string // the rule whose dictionary is trained; "": messages are only counted
}

// Kind holds the counts, the sample and the dictionary for the messages of one method and direction. Its
// methods may be called from any goroutine.
type Kind struct {
	name    KindName
	rule    *policy.MessageRule // from the last call of Messages.Kind; guarded by Messages.mu
	sampler *sampler
	sizes   sizes
	current atomic.Pointer[choice]

	compressed, compressedBytes atomic.Uint64 // messages that arrived compressed

	used atomic.Int64 // last use, Unix time in seconds

	// Used only by Run's goroutine:
	watch monitor

	ratios  atomic.Pointer[ratios]
	train   atomic.Uint64
	doing   atomic.Pointer[Step] // current step of training; nil: none
	refused atomic.Bool          // the last training found no dictionary worth using
}

// sizes counts messages by the number of bits of their length.
type sizes struct {
	bytes   atomic.Uint64
	buckets [34]atomic.Uint64
}

func (s *sizes) add(n int) {
	s.bytes.Add(uint64(n))
	s.buckets[min(bits.Len(uint(n)), len(s.buckets)-1)].Add(1)
}

// ratios is a copy of promised and observed for other goroutines.
type ratios struct{ promised, observed float64 }

// NewMessages returns an empty Messages.
func NewMessages(o MessagesOptions) *Messages {
	m := &Messages{kinds: map[KindName]*Kind{}, memory: cmp.Or(o.Memory, defaultRuleMemory), maxDict: o.MaxDict}
	m.o = Options{
		Trainer: o.Trainer, Log: o.Log, MinSamples: o.MinSamples, MinSaving: o.MinSaving,
		Drift: o.Drift, Interval: o.Interval, Poll: o.Poll,
	}
	m.o.setDefaults()
	return m
}

// maxKindCount returns the largest number of kinds. m.mu must be held.
func (m *Messages) maxKindCount() int { return min(max(m.memory/maxKindMemory, 4), maxKinds) }

// Resize changes the memory for all samples, in bytes.
func (m *Messages) Resize(memory int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memory = memory
	for _, k := range m.kinds {
		k.sampler.resize(min(maxKindMemory, memory/m.maxKindCount()))
	}
}

// Keep removes the kinds of rules that are not among these.
func (m *Messages) Keep(rules []*policy.MessageRule) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.kinds {
		if name.Rule != "" && !slices.ContainsFunc(rules, func(r *policy.MessageRule) bool { return r.AutoDict && r.Name == name.Rule }) {
			delete(m.kinds, name)
		}
	}
}

// Kind returns the kind for a method and direction, and creates it if necessary. rule is a rule whose
// dictionary is trained, or nil to only count. The result is nil if too many kinds are in use.
func (m *Messages) Kind(rule *policy.MessageRule, method string, d policy.Direction) *Kind {
	name := KindName{Method: method, Direction: d}
	if rule != nil {
		name.Rule = rule.Name
	}
	now := m.o.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.kinds[name]
	if k == nil {
		if len(method) > maxMethod || len(m.kinds) >= m.maxKindCount() && !m.dropIdle(now) {
			return nil
		}
		name.Method = string(bytes.Clone([]byte(name.Method))) // a copy, not part of a request
		k = m.newKind(name)
		m.kinds[name] = k
	}
	k.rule = rule
	k.used.Store(now.Unix())
	return k
}

func (m *Messages) newKind(name KindName) *Kind {
	k := &Kind{name: name}
	memory := min(maxKindMemory, m.memory/m.maxKindCount())
	k.sampler = &sampler{maxSample: min(MaxMessageSample, memory/minValuesInSample)}
	k.sampler.sample = newReservoir(memory, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	k.watch = newMonitor(&m.o, k.sampler)
	return k
}

// dropIdle removes the least recently used kind if it has been idle long enough. m.mu must be held.
func (m *Messages) dropIdle(now time.Time) bool {
	var oldest *Kind
	for _, k := range m.kinds {
		if oldest == nil || k.used.Load() < oldest.used.Load() {
			oldest = k
		}
	}
	if oldest == nil || now.Unix()-oldest.used.Load() < int64(kindIdle/time.Second) {
		return false
	}
	delete(m.kinds, oldest.name)
	return true
}

// Wants reports whether a message of n bytes should be sampled. If so, the caller must pass it to Observe.
func (k *Kind) Wants(n int) bool { return n <= k.sampler.maxSample && k.sampler.skip.Load() <= 0 }

// Observe counts a message that was sent as sent bytes. Rarely it keeps a copy of it, and never the message
// itself.
func (k *Kind) Observe(message []byte, sent int) {
	k.sizes.add(len(message))
	s := k.sampler
	if len(message) > s.maxSample {
		return
	}
	s.counts.values.Add(1)
	s.counts.rawBytes.Add(uint64(len(message)))
	s.counts.storedBytes.Add(uint64(sent))
	if s.skip.Add(-1) < 0 {
		s.take(nil, message)
	}
}

// Passed counts a plain message of n bytes that was sent unchanged and unread.
func (k *Kind) Passed(n int) {
	k.sizes.add(n)
	if n <= k.sampler.maxSample {
		k.sampler.skip.Add(-1)
	}
}

// PassedCompressed counts a message that arrived compressed and was sent unchanged, in sent bytes.
func (k *Kind) PassedCompressed(sent int) {
	k.compressed.Add(1)
	k.compressedBytes.Add(uint64(sent))
}

// Dictionary returns the dictionary and level for messages of this kind, nil if there is none.
func (k *Kind) Dictionary() (*codec.Dict, int) {
	if c := k.current.Load(); c != nil {
		return c.dict, c.level
	}
	return nil, 0
}

// ByHash returns the dictionary with the hash that is in use for a direction.
func (m *Messages) ByHash(hash [32]byte, d policy.Direction) (*codec.Dict, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, k := range m.kinds {
		if got, _ := k.Dictionary(); name.Direction == d && got != nil && got.Hash() == hash {
			return got, true
		}
	}
	return nil, false
}

// Run trains until ctx ends.
func (m *Messages) Run(ctx context.Context) {
	for m.o.train != nil {
		for _, k := range m.trained() {
			m.step(ctx, k)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(checkInterval, m.o.Poll)): // cheap: local counts only
		}
	}
}

// trained returns the kinds that may get a dictionary: those that have one, and as many others as there is
// room for, those with the most bytes first.
func (m *Messages) trained() []*Kind {
	m.mu.Lock()
	defer m.mu.Unlock()
	var has, wants []*Kind
	for name, k := range m.kinds {
		if name.Rule == "" {
			continue
		}
		if d, _ := k.Dictionary(); d != nil {
			has = append(has, k)
		} else {
			wants = append(wants, k)
		}
	}
	slices.SortFunc(wants, func(a, b *Kind) int {
		return cmp.Compare(b.sampler.snapshot().rawBytes, a.sampler.snapshot().rawBytes)
	})
	return append(has, wants[:min(len(wants), max(maxMessageDicts-len(has), 0))]...)
}

// step does what is due for one kind.
func (m *Messages) step(ctx context.Context, k *Kind) {
	schedule := &k.watch.schedule
	if k.watch.observe() {
		m.o.Log.Info("messages no longer fit the dictionary; collecting new samples", k.attrs()...)
		k.watch.restart(m.o.now())
	}
	k.ratios.Store(&ratios{schedule.promised, schedule.observed})
	reason := k.watch.due(m.o.now())
	if reason == "" || ctx.Err() != nil {
		return
	}
	k.train.Add(1)
	t := m.task(k)
	log := m.o.Log.With(k.attrs()...)
	log.Info("training a dictionary", "reason", reason, "samples", len(t.samples), "raw_bytes_seen", int64(k.watch.rawBytes()))
	tell := logProgress(log, m.o.now)
	t.going = func(at Step) {
		k.doing.Store(&at)
		tell(at)
	}
	got := m.o.train(ctx, t)
	got.volume = t.volume
	k.doing.Store(nil)
	m.finish(k, got)
}

func (k *Kind) attrs() []any {
	return []any{"rule", k.name.Rule, "method", k.name.Method, "direction", k.name.Direction.String()}
}

func (m *Messages) task(k *Kind) task {
	m.mu.Lock()
	rule := *k.rule
	m.mu.Unlock()
	if rule.Auto {
		rule.Setting = codec.Setting{Codec: codec.Zstd} // the gateway's choice, if it compresses at all
	}
	rule.Setting.Level = cmp.Or(rule.Setting.Level, defaultWireLevel)
	t := task{
		rule: &policy.Rule{Name: rule.Name, Setting: rule.Setting}, samples: k.sampler.values(),
		saving: m.o.MinSaving, worth: rule.SavesEnough, maxDict: m.maxDict,
	}
	if c := k.current.Load(); c != nil {
		t.current = *c
	}
	t.volume = k.watch.volume(m.o.now())
	return t
}

// defaultWireLevel is the level of "zstd" without a level.
const defaultWireLevel = 3

// finish puts a dictionary into use if one was found, and sets the schedule.
func (m *Messages) finish(k *Kind, got result) {
	now := m.o.now()
	log := m.o.Log.With(k.attrs()...).With("before", forLog(got.before), "promised", forLog(got.promised), "samples", got.values)
	switch got.refused {
	case "":
		log.Info("messages have a dictionary", "dictionary", name(got.dict), "bytes", len(got.dict.Content()), "algorithm", got.algorithm)
		k.current.Store(&choice{got.dict, got.level})
		k.refused.Store(false)
		k.watch.schedule.rolledOut(now, got.promised)
	case refusedSaving, refusedSamples:
		log.Info("no useful dictionary found", "reason", got.refused, "weighed_against_raw_bytes", int64(got.volume))
		k.refused.Store(true)
		k.watch.schedule.refused(now)
	default:
		k.watch.schedule.failed(now)
		return
	}
	k.watch.restart(now)
	k.watch.skip()
	k.ratios.Store(&ratios{k.watch.schedule.promised, k.watch.schedule.observed})
}
