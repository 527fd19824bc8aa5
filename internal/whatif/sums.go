package whatif

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
	// Sums lose weight with time, so that they tell of what passes now: a value from memory ago counts for a third.
	memory  = 2 * time.Minute
	ageEach = 5 * time.Second

	maxRules = 128 // of a gateway; others are not told about
)

// minSizes are the least sizes that are told about, in bytes, beside those in use.
var minSizes = []int{1, 32, 64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10}

// candidate is a way of sealing that is measured.
type candidate struct {
	setting codec.Setting // without a dictionary
	dict    bool          // with that of the rule
	asIs    bool          // as the rule says, whatever that is for whom
}

// tally sums up values, each times its weight.
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

// ratio is raw by stored bytes; 0: there are none.
func (t *tally) ratio() float64 {
	if t.stored == 0 {
		return 0
	}
	return t.raw / t.stored
}

// ruleSums are of the values that a rule covers whatever their size.
type ruleSums struct {
	values, bytes uint64 // sampled, each once
	from          []int  // least lengths of the sizes that are told apart, ascending; the first is 0
	plain         []tally
	by            map[candidate][]tally
}

func newRuleSums(r *policy.Rule) *ruleSums {
	from := append([]int{0, r.MinSize}, minSizes...)
	slices.Sort(from)
	from = slices.Compact(from)
	return &ruleSums{from: from, plain: make([]tally, len(from)), by: map[candidate][]tally{}}
}

// place is where a value of n bytes is counted.
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

// since sums up values of at least so many bytes.
func (r *ruleSums) since(tallies []tally, minSize int) (sum tally) {
	for i := range tallies {
		if r.from[i] >= minSize {
			sum.add(&tallies[i])
		}
	}
	return sum
}

// sums are those of one sampling.
type sums struct {
	mu    sync.Mutex
	rules map[string]*ruleSums
	all   tally // of all values that were measured, whether a rule covers them or not

	// What has passed, and in which time: both lose weight as the sums do.
	passed, seconds float64
	seen            int64
	at, aged        time.Time
	begun           time.Time
}

func newSums(now time.Time) *sums {
	return &sums{rules: map[string]*ruleSums{}, at: now, aged: now, begun: now}
}

// keep forgets all rules but some.
func (s *sums) keep(names map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.rules, func(name string, _ *ruleSums) bool { return !names[name] })
}

// rule returns the sums of a rule, nil for one too many. mu is held.
func (s *sums) rule(r *policy.Rule) *ruleSums {
	sum := s.rules[r.Name]
	if sum == nil && len(s.rules) < maxRules {
		sum = newRuleSums(r)
		s.rules[r.Name] = sum
	}
	return sum
}

// look takes notice of how many bytes have passed until now. mu is held.
func (s *sums) look(now time.Time, seen int64) {
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

// perSecond is what the sums have to be multiplied by for what passes in a second. mu is held.
func (s *sums) perSecond() float64 {
	if s.all.raw == 0 || s.seconds == 0 {
		return 0
	}
	return s.passed / s.all.raw / s.seconds
}
