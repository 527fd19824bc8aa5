package simulate

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

const (
	// Sums decay with time, so that they reflect current values: a value from memory ago counts for about a
	// third.
	memory  = 2 * time.Minute
	ageEach = 5 * time.Second

	maxRules = 128 // of a gateway; others have no estimates
)

// minSizes lists the minimum sizes to estimate, in bytes, besides those in use.
var minSizes = []int{1, 32, 64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10}

// candidate is a setting to measure.
type candidate struct {
	setting codec.Setting // without a dictionary
	dict    bool          // with the rule's dictionary
	asIs    bool          // the rule's own setting, which may depend on the login
}

// tally sums up values, each multiplied by its weight.
type tally struct{ values, raw, stored, opened, sealNanos, openNanos float64 }

func (t *tally) scale(by float64) {
	t.values *= by
	t.raw *= by
	t.stored *= by
	t.opened *= by
	t.sealNanos *= by
	t.openNanos *= by
}

func (t *tally) add(u *tally) {
	t.values += u.values
	t.raw += u.raw
	t.stored += u.stored
	t.opened += u.opened
	t.sealNanos += u.sealNanos
	t.openNanos += u.openNanos
}

// ratio returns raw divided by stored bytes; 0 if nothing is stored.
func (t *tally) ratio() float64 {
	if t.stored == 0 {
		return 0
	}
	return t.raw / t.stored
}

// ruleSums holds the sums of the values that a rule covers at any size.
type ruleSums struct {
	values, bytes uint64 // sampled, each counted once
	from          []int  // lower bounds of the size classes, ascending; the first is 0
	plain         []tally
	by            map[candidate][]tally
}

func newRuleSums(r *policy.Rule) *ruleSums {
	from := append([]int{0, r.MinSize}, minSizes...)
	slices.Sort(from)
	from = slices.Compact(from)
	return &ruleSums{from: from, plain: make([]tally, len(from)), by: map[candidate][]tally{}}
}

// place returns the size class of a value of n bytes.
func (r *ruleSums) place(n int) int {
	i, found := slices.BinarySearch(r.from, n)
	if !found {
		i--
	}
	return i
}

func (r *ruleSums) of(c candidate) []tally {
	t := r.by[c]
	if t == nil {
		t = make([]tally, len(r.from))
		r.by[c] = t
	}
	return t
}

// since sums up values of at least minSize bytes.
func (r *ruleSums) since(tallies []tally, minSize int) (sum tally) {
	for i := range tallies {
		if r.from[i] >= minSize {
			sum.add(&tallies[i])
		}
	}
	return sum
}

// sums holds the sums of one sampling.
type sums struct {
	mu    sync.Mutex
	rules map[string]*ruleSums
	all   tally // of all measured values, whether a rule covers them or not

	// The bytes that have passed and the seconds decay as the sums do.
	passed, seconds float64
	seen            int64
	at, aged        time.Time
	begun           time.Time
}

func newSums(now time.Time) *sums {
	return &sums{rules: map[string]*ruleSums{}, at: now, aged: now, begun: now}
}

// keep drops the sums of all rules except those named.
func (s *sums) keep(names map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.rules, func(name string, _ *ruleSums) bool { return !names[name] })
}

// rule returns the sums of a rule, or nil beyond the limit. s.mu must be held.
func (s *sums) rule(r *policy.Rule) *ruleSums {
	sum := s.rules[r.Name]
	if sum == nil && len(s.rules) < maxRules {
		sum = newRuleSums(r)
		s.rules[r.Name] = sum
	}
	return sum
}

// recordPassed records how many bytes have passed until now. s.mu must be held.
func (s *sums) recordPassed(now time.Time, seen int64) {
	s.passed += float64(seen - s.seen)
	s.seconds += max(now.Sub(s.at).Seconds(), 0)
	s.seen, s.at = seen, now
	if since := now.Sub(s.aged); since >= ageEach {
		s.age(math.Exp(-float64(since) / float64(memory)))
		s.aged = now
	}
}

func (s *sums) age(by float64) {
	s.passed *= by
	s.seconds *= by
	s.all.scale(by)
	for _, r := range s.rules {
		for i := range r.plain {
			r.plain[i].scale(by)
		}
		for _, tallies := range r.by {
			for i := range tallies {
				tallies[i].scale(by)
			}
		}
	}
}

// perSecond returns the factor that converts sums to values per second. s.mu must be held.
func (s *sums) perSecond() float64 {
	if s.all.raw == 0 || s.seconds == 0 {
		return 0
	}
	return s.passed / s.all.raw / s.seconds
}
