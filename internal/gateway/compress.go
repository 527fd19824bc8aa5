package gateway

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/budget"
	"github.com/cinch-layer/cinch/internal/system/cputime"
)

// Compressor compresses values on their way into a store, within the budgets of a gateway, and counts the
// results. It is safe for concurrent use.
type Compressor struct {
	Sealer  *envelope.Sealer
	Effort  *Effort // nil: no budgets
	Stats   *Stats
	Sampler Sampler // nil: none
}

// Sampler collects values on their way into the store, to train dictionaries with them.
type Sampler interface {
	// Sample is called for each value that may be compressed by a rule with an automatic dictionary. stored
	// is the number of bytes that the value takes in the store, and login the user that writes it ("": the
	// server's default user). Sample must not keep key or value, and must return quickly.
	Sample(rule *policy.Rule, login string, key, value []byte, stored int)
}

// LoginUnknown replaces the user's name while the reply to a login is awaited: the requests after the login may
// belong to the old user or to the new one. No user has this name.
const LoginUnknown = "\x00"

// Compressed is the result of compressing a value.
type Compressed struct {
	envelope.Outcome
	Setting codec.Setting // the rule's, lowered by the budgets
	Took    time.Duration // time by which compressing delayed the value
	Spent   time.Duration // Took plus the time spent compressing while the value arrived
}

// Compress appends to dst the envelope of a value of type t that rule covers, or the value itself if
// compressing gains nothing. setting is the rule's setting for this value. dst is nil or a pooled buffer, and goes
// back to the pool if it has too little room. The caller owns the result.
func (c *Compressor) Compress(dst, value []byte, rule *policy.Rule, setting codec.Setting, t policy.Type) ([]byte, Compressed) {
	setting, stint := c.Effort.BeginValue(setting, len(value))
	dst = memory.GrowBuffer(dst, envelope.MaxSealedLen(setting, len(value)))
	began := time.Now()
	out, did := c.Sealer.SealOutcome(dst, value, setting, rule.SavesEnoughFunc(t))
	took := time.Since(began)
	stint.EndOf(setting, took)
	return out, Compressed{Outcome: did, Setting: setting, Took: took, Spent: took}
}

// Count counts the result for a value that a rule covers. raw and stored are its sizes in bytes, uncompressed and as
// stored.
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

// Sample passes a value of an automatic rule, which takes stored bytes in the store, to the sampler. It leaves out
// values that should have been compressed with a dictionary and, because of a budget, were not: their sizes say
// nothing about the dictionary. It also leaves out values whose user is LoginUnknown.
func (c *Compressor) Sample(rule *policy.Rule, login string, key, value []byte, wanted, got codec.Setting, stored int) {
	if c.Sampler != nil && login != LoginUnknown && (wanted.Dict == 0 || got == wanted) {
		c.Sampler.Sample(rule, login, key, value, stored)
	}
}

// Wrap appends value to dst uncompressed. A value that begins like an envelope is put into an envelope: otherwise it
// would be taken for one when it is read. dst is as for Compress.
func (c *Compressor) Wrap(dst, value []byte) []byte {
	dst = memory.GrowBuffer(dst, envelope.MaxHeaderLen+len(value))
	if !envelope.IsSealed(value) {
		return append(dst, value...)
	}
	start := len(dst)
	out := c.Sealer.Escape(dst, value)
	c.Stats.Sealed("escape", codec.Raw, len(value), len(out)-start, 0)
	return out
}

// Effort keeps a gateway's compression within its limits on CPU time and latency: it gives values lower
// settings than their rules say, and measures the cost. Values can be read whatever setting they were written
// with. A nil Effort has no limits.
type Effort struct {
	start time.Time
	cpu   func() time.Duration // CPU time of the calling thread so far

	mu       sync.Mutex                      // guards changes of governor
	governor atomic.Pointer[budget.Governor] // nil: no limits
}

// NewEffort returns an Effort without limits.
func NewEffort() *Effort { return &Effort{start: time.Now(), cpu: cputime.Thread} }

// SetLimits replaces the limits; the zero value has none.
func (e *Effort) SetLimits(l budget.Limits) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch g := e.governor.Load(); {
	case l == budget.Limits{}:
		e.governor.Store(nil)
	case g == nil:
		e.governor.Store(budget.New(l, time.Since(e.start)))
	default:
		g.SetLimits(l, time.Since(e.start))
	}
}

// limits returns the governor; nil if there are no limits.
func (e *Effort) limits() *budget.Governor {
	if e == nil {
		return nil
	}
	return e.governor.Load()
}

// RecordLatency records how long compressing a value took. It is not needed for values that are left uncompressed.
func (e *Effort) RecordLatency(d time.Duration) {
	if g := e.limits(); g != nil {
		g.RecordLatency(d)
	}
}

// SteppedDown is the reason for values left uncompressed because a budget allowed no time for them.
const SteppedDown = "stepped_down"

const (
	// Work on fewer bytes is measured once in measureEvery times, at random, and its time is multiplied by
	// measureEvery: reading the clock costs about as much as compressing 1 KB with lz4.
	alwaysMeasuredBytes = 16 << 10
	measureEvery        = 8
)

// CPUTimer measures the CPU time of work on values. The goroutine is locked to its thread from Begin to End.
type CPUTimer struct {
	governor *budget.Governor // nil: no limits
	cpu      func() time.Duration
	before   time.Duration
	weight   time.Duration // factor for the measured time; 0: CPU time is not measured
}

// Begin begins measuring work on n bytes.
func (e *Effort) Begin(n int) CPUTimer {
	g := e.limits()
	if g == nil {
		return CPUTimer{}
	}
	return e.newTimer(g, n)
}

// BeginValue is Begin for a value of n bytes. It also returns the setting to use instead of st, the setting of its
// rule.
func (e *Effort) BeginValue(st codec.Setting, n int) (codec.Setting, CPUTimer) {
	g := e.limits()
	if g == nil {
		return st, CPUTimer{}
	}
	return e.lower(g, st, n), e.newTimer(g, n)
}

func (e *Effort) newTimer(g *budget.Governor, n int) CPUTimer {
	s := CPUTimer{governor: g}
	switch {
	case !g.LimitsCPU():
		return s
	case n >= alwaysMeasuredBytes:
		s.weight = 1
	case rand.IntN(measureEvery) > 0:
		return s
	default:
		s.weight = measureEvery
	}
	runtime.LockOSThread()
	s.cpu = e.cpu
	s.before = s.cpu()
	return s
}

// End counts the CPU time since Begin.
func (s CPUTimer) End() {
	if s.weight == 0 {
		return
	}
	took := s.cpu() - s.before
	runtime.UnlockOSThread()
	s.governor.RecordCPU(took * s.weight)
}

// EndOf is End for a value that was compressed with st. waited is the time that the client waited for it.
func (s CPUTimer) EndOf(st codec.Setting, waited time.Duration) {
	if s.governor == nil {
		return
	}
	s.End()
	if st.Codec != codec.Raw {
		s.governor.RecordLatency(waited)
	}
}

// Lower returns the setting to use for the next value, of n bytes, instead of st, the setting of its rule.
func (e *Effort) Lower(st codec.Setting, n int) codec.Setting {
	g := e.limits()
	if g == nil {
		return st
	}
	return e.lower(g, st, n)
}

func (e *Effort) lower(g *budget.Governor, st codec.Setting, n int) codec.Setting {
	step := g.Step(time.Since(e.start), rand.Float64())
	return countStep(g, step, st, step.Apply(st, n))
}

// IsSteppedDown reports whether the budgets leave no time for compressing a message with zstd, the codec of links. The
// message is counted as by LowerWithin.
func (e *Effort) IsSteppedDown() bool {
	return e.LowerWithin(codec.Setting{Codec: codec.Zstd, Level: 3}).Codec == codec.Raw
}

// LowerWithin is Lower for a message whose codec both ends have agreed on: it returns a setting of that codec, or
// the zero Setting.
func (e *Effort) LowerWithin(st codec.Setting) codec.Setting {
	g := e.limits()
	if g == nil {
		return st
	}
	step := g.Step(time.Since(e.start), rand.Float64())
	return countStep(g, step, st, step.ApplyWithin(st))
}

// countStep counts that a step replaced st, the setting of a rule, by lowered. It returns lowered.
func countStep(g *budget.Governor, step budget.Step, st, lowered codec.Setting) codec.Setting {
	if lowered == st {
		step = budget.Full
	}
	g.RecordStep(step)
	if lowered.Codec == codec.Raw {
		g.RecordLatency(0)
	}
	return lowered
}

func (e *Effort) state() (s budget.State, ok bool) {
	g := e.limits()
	if g == nil {
		return s, false
	}
	return g.State(time.Since(e.start)), true
}
