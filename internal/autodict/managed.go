package autodict

import (
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/policy"
)

// managed holds the state of one rule for the values of one login. Fields without a comment on access belong
// to the goroutine of Run.
type managed struct {
	fingerprint string
	login       string   // see logins.go; never changed
	noSample    []string // never changed
	sampler     *sampler // never changed

	given   atomic.Pointer[given]
	current choice // guarded by inForce.mu, written only by Run's goroutine
	looks   int    // reads of the record, guarded by inForce.mu; see Looked

	watch     watch
	announcer announcer
	rejected  Number // announced by another gateway, and no better than the current one
	wasDue    bool   // at the last check
}

// given holds the parts of a managed rule that SetRules replaces.
type given struct {
	rule  *policy.Rule // without a dictionary
	tally *tally
}

// newManaged returns the state for the values of a login, with so many bytes of memory for the sample.
func newManaged(o *Options, fingerprint, login string, memory int, noSample []string) *managed {
	r := &managed{fingerprint: fingerprint, login: login, noSample: noSample}
	r.sampler = newSampler(memory, o.MaxSample, noSample)
	r.watch = newWatch(o, r.sampler)
	r.announcer = announcer{o: o, name: fingerprint, tally: r.tally}
	return r
}

func (r *managed) rule() *policy.Rule { return r.given.Load().rule }

func (r *managed) tally() *tally { return r.given.Load().tally }

// resume takes the promised ratio of the dictionary in force from the record, after rules were changed.
func (r *managed) resume() {
	v := r.announcer.record.Current
	if v != nil && r.watch.schedule.promised == 0 && r.current.is(uint32(v.Dict)) {
		r.watch.schedule.rolledOut(v.At, v.Promised)
	}
}
