package gateway

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/cputime"
	"github.com/cinch-layer/cinch/internal/effort"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Compressor compresses values on their way into a store, within the budgets of a gateway, and counts what became of them. It is
// safe for concurrent use.
type Compressor struct {
	Sealer  *cinch.Sealer
	Effort  *Effort // nil: no budgets
	Stats   *Stats
	Sampler Sampler // nil: none
}

// Sampler sees values on their way into the store, to make dictionaries of them.
type Sampler interface {
	// Sample is told of each value that may be sealed by a rule whose dictionary is chosen automatically: stored is how many bytes
	// it takes, sealed or not, and login who writes it, "" for the server's default user. It keeps neither key nor value, and is quick.
	Sample(rule *policy.Rule, login string, key, value []byte, stored int)
}

// LoginUnknown is in place of a login while the answer to it is awaited, and others' requests may be behind it already. No user has
// such a name.
const LoginUnknown = "\x00"

// Compressed says what became of a value.
type Compressed struct {
	cinch.Outcome
	Setting codec.Setting // what the budgets left of the rule's
	Took    time.Duration // that the value waited for
	Spent   time.Duration // the same, and what was done while the value arrived
}

// Compress appends the envelope of a value of type t that rule covers, or the value itself where that gains nothing, to dst. setting
// is what the rule says for this value. dst is nil or a buffer of the pool, and goes back there if it has too little room; the result is
// the caller's.
func (c *Compressor) Compress(dst, value []byte, rule *policy.Rule, setting codec.Setting, t policy.Type) ([]byte, Compressed) {
	setting, stint := c.Effort.BeginValue(setting, len(value))
	dst = GrowBuffer(dst, cinch.MaxSealedLen(setting, len(value)))
	began := time.Now()
	out, did := c.Sealer.SealOutcome(dst, value, setting, rule.WorthFunc(t))
	took := time.Since(began)
	stint.EndOf(setting, took)
	return out, Compressed{Outcome: did, Setting: setting, Took: took, Spent: took}
}

// Count counts what became of a value of raw bytes that a rule covers; it is stored as so many bytes.
func (c *Compressor) Count(rule *policy.Rule, did *Compressed, raw, stored int) {
	switch {
	case did.Sealed:
		c.Stats.Sealed(rule.Name, did.Codec, raw, stored, did.Spent)
	case did.Setting.Codec == codec.Raw:
		c.Stats.Left(rule.Name, SteppedDown, raw)
	default:
		c.Stats.SealTime(rule.Name, did.Setting.Codec, did.Spent)
		reason := "no_gain"
		if raw > c.Sealer.MaxRaw() {
			reason = "too_big"
		}
		c.Stats.Left(rule.Name, reason, raw)
	}
}

// Sample shows a value, stored as so many bytes, to the sampler of an automatic rule. A value that a budget has denied the wanted
// setting's dictionary says nothing about it.
func (c *Compressor) Sample(rule *policy.Rule, login string, key, value []byte, wanted, got codec.Setting, stored int) {
	if c.Sampler != nil && login != LoginUnknown && (wanted.Dict == 0 || got == wanted) {
		c.Sampler.Sample(rule, login, key, value, stored)
	}
}

// Wrap appends value to dst as it is, in an envelope if it begins like one itself: else it would be taken for one when it is read.
// dst is as for Compress.
func (c *Compressor) Wrap(dst, value []byte) []byte {
	dst = GrowBuffer(dst, cinch.MaxHeaderLen+len(value))
	if !cinch.IsSealed(value) {
		return append(dst, value...)
	}
	start := len(dst)
	out := c.Sealer.Escape(dst, value)
	c.Stats.Sealed("escape", codec.Raw, len(value), len(out)-start, 0)
	return out
}

// Effort has a gateway's sealing keep to what it may take of CPU time and latency: it gives values lower
// settings than their rules say, and measures what that takes. What is sealed opens whatever its setting. A nil Effort has no limits.
type Effort struct {
	began time.Time
	cpu   func() time.Duration // of the calling thread so far

	mu       sync.Mutex                      // guards changes of governor
	governor atomic.Pointer[effort.Governor] // nil: there are no limits
}

// NewEffort has no limits yet.
func NewEffort() *Effort { return &Effort{began: time.Now(), cpu: cputime.Thread} }

// SetLimits replaces the limits; zero is none.
func (e *Effort) SetLimits(l effort.Limits) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch g := e.governor.Load(); {
	case l == effort.Limits{}:
		e.governor.Store(nil)
	case g == nil:
		e.governor.Store(effort.New(l, time.Since(e.began)))
	default:
		g.SetLimits(l, time.Since(e.began))
	}
}

// limits returns the governor of the limits there are, nil if there are none.
func (e *Effort) limits() *effort.Governor {
	if e == nil {
		return nil
	}
	return e.governor.Load()
}

// Took is told how long sealing a value has taken. Of those that are not to be sealed it knows.
func (e *Effort) Took(d time.Duration) {
	if g := e.limits(); g != nil {
		g.Took(d)
	}
}

// SteppedDown is why a value went as it is that a budget left no time for.
const SteppedDown = "stepped_down"

const (
	// Work on fewer bytes is measured once in measureOne times, and counts for all of these: looking at the
	// clock costs about as much as lz4 does for 1 KB.
	measuredBytes = 16 << 10
	measureOne    = 8
)

// Stint is a piece of work on values whose CPU time counts. The goroutine keeps its thread from Begin to End.
type Stint struct {
	governor *effort.Governor // nil: there are no limits
	cpu      func() time.Duration
	before   time.Duration
	weight   time.Duration // 0: its CPU time is not measured
}

// Begin begins work on n bytes.
func (e *Effort) Begin(n int) Stint {
	g := e.limits()
	if g == nil {
		return Stint{}
	}
	return e.stint(g, n)
}

// BeginValue is Begin for a value of n bytes, and returns the setting that it gets in place of its rule's.
func (e *Effort) BeginValue(st codec.Setting, n int) (codec.Setting, Stint) {
	g := e.limits()
	if g == nil {
		return st, Stint{}
	}
	return e.lower(g, st, n), e.stint(g, n)
}

func (e *Effort) stint(g *effort.Governor, n int) Stint {
	s := Stint{governor: g}
	switch {
	case !g.CountsCPU():
		return s
	case n >= measuredBytes:
		s.weight = 1
	case rand.IntN(measureOne) > 0:
		return s
	default:
		s.weight = measureOne
	}
	runtime.LockOSThread()
	s.cpu = e.cpu
	s.before = s.cpu()
	return s
}

// End counts the CPU time of the work.
func (s Stint) End() {
	if s.weight == 0 {
		return
	}
	took := s.cpu() - s.before
	runtime.UnlockOSThread()
	s.governor.Spent(took * s.weight)
}

// EndOf is End for the work on a value that was to be compressed by a setting, and for which a client has waited so long.
func (s Stint) EndOf(st codec.Setting, waited time.Duration) {
	if s.governor == nil {
		return
	}
	s.End()
	if st.Codec != codec.Raw {
		s.governor.Took(waited)
	}
}

// Lower is the setting that the next value gets, of n bytes, in place of its rule's.
func (e *Effort) Lower(st codec.Setting, n int) codec.Setting {
	g := e.limits()
	if g == nil {
		return st
	}
	return e.lower(g, st, n)
}

func (e *Effort) lower(g *effort.Governor, st codec.Setting, n int) codec.Setting {
	step := g.Step(time.Since(e.began), rand.Float64())
	return gave(g, step, st, step.Of(st, n))
}

// LowerWithin is Lower for a message whose codec both ends have agreed on: it is that one, or none.
func (e *Effort) LowerWithin(st codec.Setting) codec.Setting {
	g := e.limits()
	if g == nil {
		return st
	}
	step := g.Step(time.Since(e.began), rand.Float64())
	return gave(g, step, st, step.Within(st))
}

// gave counts what a step made of a rule's setting.
func gave(g *effort.Governor, step effort.Step, st, lowered codec.Setting) codec.Setting {
	if lowered == st {
		step = effort.Full
	}
	g.Gave(step)
	if lowered.Codec == codec.Raw {
		g.Took(0)
	}
	return lowered
}

func (e *Effort) state() (s effort.State, ok bool) {
	g := e.limits()
	if g == nil {
		return s, false
	}
	return g.State(time.Since(e.began)), true
}
