package budget

import (
	"math"
	"time"
)

// recentStats holds the statistics of the last seconds, for metrics and the admin page.
type recentStats struct {
	at      time.Duration
	values  [Steps]uint64 // counts at that time
	spent   int64
	shares  [Steps]float64 // of values, by step
	cores   float64
	step    Step
	changes uint64
}

const (
	statsInterval = 250 * time.Millisecond
	// statsDecay is the time after which old values weigh about a third (1/e).
	statsDecay = 3 * time.Second
	// switchLead is the lead in the share of values that another step must have over the reported one to be
	// reported instead.
	switchLead = 0.3
)

// State holds a governor's limits, its current step and its counts.
type State struct {
	Limits Limits
	Step   Step           // the step that most values get
	Shares [Steps]float64 // of the values in the last seconds; if there were none, those that they would get
	Cores  float64        // CPU seconds a second, recently

	Changes uint64        // of Step
	Values  [Steps]uint64 // by step
	Spent   time.Duration // CPU time
	Late    uint64        // values that took longer than the limit
}

// State returns the state at the time now.
func (g *Governor) State(now time.Duration) (s State) {
	l := g.limits.Load()
	g.fill(l, now)
	g.updateStats(now, l)
	g.mu.Lock()
	s = State{Limits: *l, Step: g.recent.step, Shares: g.recent.shares, Cores: g.recent.cores, Changes: g.recent.changes}
	g.mu.Unlock()
	for i := range s.Values {
		s.Values[i] = g.values[i].Load()
	}
	s.Spent, s.Late = time.Duration(g.spent.Load()), g.late.Load()
	return s
}

// updateStats updates the statistics every statsInterval. It does nothing if another goroutine is doing so.
func (g *Governor) updateStats(now time.Duration, l *Limits) {
	if !g.mu.TryLock() {
		return
	}
	defer g.mu.Unlock()
	since := now - g.recent.at
	if since < statsInterval {
		return
	}
	r := &g.recent
	shares := g.sharesSince(r, l)
	spent := g.spent.Load()
	weight := 1 - math.Exp(-float64(since)/float64(statsDecay))
	if r.at == 0 {
		r.shares, weight = shares, 1
	}
	r.cores += weight * (float64(spent-r.spent)/float64(since) - r.cores)
	most := r.step
	for i := range r.shares {
		if r.shares[i] += weight * (shares[i] - r.shares[i]); r.shares[i] > r.shares[most] {
			most = Step(i)
		}
	}
	r.at, r.spent = now, spent
	if r.shares[most] > r.shares[r.step]+switchLead {
		r.step = most
		r.changes++
	}
}

// sharesSince returns the shares of the steps among the values since the last update; without any values, those
// that they would get.
func (g *Governor) sharesSince(r *recentStats, l *Limits) (shares [Steps]float64) {
	var total uint64
	for i := range r.values {
		n := g.values[i].Load()
		shares[i] = float64(n - r.values[i])
		total += n - r.values[i]
		r.values[i] = n
	}
	if total == 0 {
		step, better := mix(g.height(l))
		shares[step] = 1 - better
		if better > 0 {
			shares[step-1] = better
		}
		return shares
	}
	for i := range shares {
		shares[i] /= float64(total)
	}
	return shares
}
