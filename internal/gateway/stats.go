package gateway

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// The two sides of a gateway, which index Stats.sides.
const (
	sideClient = iota
	sideUpstream
)

var sideNames = [...]string{sideClient: "client", sideUpstream: "upstream"}

// Bounds on labels. Rules come from the configuration and classes from the code, so these limits are a
// safeguard against mistakes; labels beyond them count as "other".
const (
	maxRuleSeries  = 4096
	maxClassSeries = 256
	otherLabel     = "other"
	otherCodec     = codec.ID(255)
)

// codecIDs is the number of codecs that the format's four bits can name, plus cinch-proto.
const codecIDs = codec.Proto + 1

// Stats holds the counters of one gateway. All methods may be called at any time from any goroutine, on a nil
// Stats too, and allocate nothing once their labels have been seen. Counters never decrease while the process
// lives.
type Stats struct {
	name     string
	protocol string
	commands map[string]string // from name to the same name as a label; see SetCommands

	sides         [len(sideNames)]traffic
	connsOpen     atomic.Int64
	connsTotal    atomic.Uint64
	connsRejected atomic.Uint64

	sealed   family[sealKey, volume]
	left     family[leftKey, volume]
	observed family[sealKey, observation]
	opened   [codecIDs]volume
	errors   family[string, atomic.Uint64]
	trouble  atomic.Pointer[string]
	guarded  family[guardKey, atomic.Uint64]
	inflated family[string, atomic.Uint64]
	latency  histogram
	effort   atomic.Pointer[Effort] // nil: none

	ownAddresses ownAddresses
}

// traffic counts the bytes on the wire of one side of a gateway. It lives as
// long as the gateway's Stats and is shared by all connections of that side.
type traffic struct {
	received, sent atomic.Uint64
}

type (
	sealKey struct {
		rule  string
		codec codec.ID
	}
	leftKey  struct{ rule, reason string }
	guardKey struct{ command, outcome string }
)

// codecName returns the label of the codec; otherCodec stands for all labels beyond the limit.
func (k sealKey) codecName() string {
	if k.codec == otherCodec {
		return otherLabel
	}
	return k.codec.String()
}

// volume counts values, their sizes and the time spent on them.
type volume struct {
	values, rawBytes, storedBytes atomic.Uint64
	nanos                         atomic.Int64
}

func (v *volume) add(raw, stored int, d time.Duration) {
	v.values.Add(1)
	v.rawBytes.Add(uint64(raw))
	v.storedBytes.Add(uint64(stored))
	v.nanos.Add(int64(d))
}

// observation counts what compressing would have done, and the time spent decompressing.
type observation struct {
	volume
	openNanos atomic.Int64
}

// NewStats returns the counters of the gateway called name. The names of the gateways of one process must
// differ.
func NewStats(name, protocol string) *Stats {
	return &Stats{
		name: name, protocol: protocol,
		sealed:   family[sealKey, volume]{limit: maxRuleSeries, other: sealKey{otherLabel, otherCodec}},
		left:     family[leftKey, volume]{limit: maxRuleSeries, other: leftKey{otherLabel, otherLabel}},
		observed: family[sealKey, observation]{limit: maxRuleSeries, other: sealKey{otherLabel, otherCodec}},
		errors:   family[string, atomic.Uint64]{limit: maxClassSeries, other: otherLabel},
		guarded:  family[guardKey, atomic.Uint64]{limit: maxRuleSeries, other: guardKey{otherLabel, otherLabel}},
		inflated: family[string, atomic.Uint64]{limit: maxClassSeries, other: otherLabel},
	}
}

// SetCommands sets the command names that Guarded uses as labels; all others count as "other", so that
// clients can't invent labels. It must be called before the gateway serves.
func (s *Stats) SetCommands(names []string) {
	if s == nil {
		return
	}
	s.commands = make(map[string]string, len(names))
	for _, name := range names {
		s.commands[name] = name
	}
}

// Sealed counts a value that was compressed under rule: raw bytes became stored bytes, envelope included, in
// time d.
func (s *Stats) Sealed(rule string, id codec.ID, raw, stored int, d time.Duration) {
	if s != nil {
		s.sealed.get(sealKey{rule, id}).add(raw, stored, d)
	}
}

// SealTime counts the time of compressing a value that was then left uncompressed, for example because it saved
// no space. The value itself is counted by Left.
func (s *Stats) SealTime(rule string, id codec.ID, d time.Duration) {
	if s != nil {
		s.sealed.get(sealKey{rule, id}).nanos.Add(int64(d))
	}
}

// Left counts a value of raw bytes that a rule covers and that was left uncompressed. reason must be one of the
// caller's constants: small, no_gain, number, budget ….
func (s *Stats) Left(rule, reason string, raw int) {
	if s != nil {
		s.left.get(leftKey{rule, reason}).add(raw, raw, 0)
	}
}

// Observed counts a value that a rule compressed and decompressed for the statistics only: raw bytes would
// have become stored bytes (stored equals raw if nothing is gained). The value itself is counted by Left.
func (s *Stats) Observed(rule string, id codec.ID, raw, stored int, seal, open time.Duration) {
	if s != nil {
		o := s.observed.get(sealKey{rule, id})
		o.add(raw, stored, seal)
		o.openNanos.Add(int64(open))
	}
}

// Opened counts a value that was decompressed: stored bytes, envelope included, became raw bytes, in time d.
func (s *Stats) Opened(id codec.ID, stored, raw int, d time.Duration) {
	if s != nil {
		s.opened[id%codecIDs].add(raw, stored, d)
	}
}

// Error counts an error. class must be one of the caller's constants.
func (s *Stats) Error(class string) {
	if s != nil {
		s.errors.get(class).Add(1)
	}
}

// SetTrouble sets the error because of which the gateway can't serve clients; nil: it can.
func (s *Stats) SetTrouble(err error) {
	if s == nil {
		return
	}
	if err == nil {
		s.trouble.Store(nil)
		return
	}
	text := err.Error()
	s.trouble.Store(&text)
}

// Guarded counts a command that was guarded because it computes on values. See SetCommands for command. outcome must
// be one of the caller's constants.
func (s *Stats) Guarded(command, outcome string) {
	if s == nil {
		return
	}
	known, ok := s.commands[command]
	if !ok {
		known = otherLabel
	}
	s.guarded.get(guardKey{known, outcome}).Add(1)
}

// Inflated counts an envelope that was replaced in the store by its uncompressed value, for a command that needs it.
// reason must be one of the caller's constants.
func (s *Stats) Inflated(reason string) {
	if s != nil {
		s.inflated.get(reason).Add(1)
	}
}

// Latency counts the time that the gateway itself added to one exchange. For Redis, that is the time added to one
// request by compressing its values, or to one reply by decompressing them.
func (s *Stats) Latency(d time.Duration) {
	if s == nil {
		return
	}
	i := 0
	for i < len(latencyBounds) && d > latencyBounds[i] {
		i++
	}
	s.latency.buckets[i].Add(1)
	s.latency.nanos.Add(int64(max(d, 0)))
}

// ShowEffort adds the state of the gateway's budgets to its metrics.
func (s *Stats) ShowEffort(e *Effort) {
	if s != nil {
		s.effort.Store(e)
	}
}

func (s *Stats) side(i int) *traffic {
	if s == nil {
		return nil
	}
	return &s.sides[i]
}

func (s *Stats) connOpened() {
	if s != nil {
		s.connsOpen.Add(1)
		s.connsTotal.Add(1)
	}
}

func (s *Stats) connClosed() {
	if s != nil {
		s.connsOpen.Add(-1)
	}
}

func (s *Stats) connRejected() {
	if s != nil {
		s.connsRejected.Add(1)
	}
}

// family holds one counter for each label. Reading takes no lock: the map is never changed, only replaced, once for
// each new label. When there are limit labels, all new ones share the counter of the label other.
type family[K comparable, V any] struct {
	limit int
	other K

	mu     sync.Mutex
	series atomic.Pointer[map[K]*V]
}

func (f *family[K, V]) get(k K) *V {
	if m := f.series.Load(); m != nil {
		if v := (*m)[k]; v != nil {
			return v
		}
	}
	return f.add(k)
}

// all returns the current counters; the caller must not change the map.
func (f *family[K, V]) all() map[K]*V {
	if m := f.series.Load(); m != nil {
		return *m
	}
	return nil
}

func (f *family[K, V]) add(k K) *V {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.all()
	if len(old) >= f.limit {
		k = f.other
	}
	if v := old[k]; v != nil {
		return v
	}
	next := make(map[K]*V, len(old)+1)
	maps.Copy(next, old)
	v := new(V)
	next[k] = v
	f.series.Store(&next)
	return v
}

// latencyBounds are the upper bounds of the histogram's buckets, 1 µs to 1 s.
var latencyBounds = [...]time.Duration{
	1 * time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond,
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second,
}

// histogram counts durations. The last bucket is for durations above all bounds.
type histogram struct {
	buckets [len(latencyBounds) + 1]atomic.Uint64
	nanos   atomic.Int64 // sum of all durations
}

// read returns the count of each bucket (not cumulated) and their sum.
func (h *histogram) read() (counts [len(latencyBounds) + 1]uint64, total uint64) {
	for i := range h.buckets {
		counts[i] = h.buckets[i].Load()
		total += counts[i]
	}
	return counts, total
}

// quantile returns the bound below which the share q of all durations lies. It is the upper end of a bucket, so it may
// be up to 2.5 times too high. For durations above all bounds it returns the highest bound, and 0 if there are no
// durations.
func (h *histogram) quantile(q float64) time.Duration {
	counts, total := h.read()
	return quantileOf(counts, total, q)
}

func quantileOf(counts [len(latencyBounds) + 1]uint64, total uint64, q float64) time.Duration {
	if total == 0 {
		return 0
	}
	need := uint64(q * float64(total))
	var seen uint64
	for i, bound := range latencyBounds {
		seen += counts[i]
		if seen > need || seen == total {
			return bound
		}
	}
	return latencyBounds[len(latencyBounds)-1]
}
