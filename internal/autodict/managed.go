package autodict

import (
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/policy"
)

// managed is one rule, for the values of one login. Run's goroutine owns what no comment says
// otherwise of.
type managed struct {
	fingerprint string
	login       string   // whose values it is about, see logins.go; never changed
	noSample    []string // never changed
	sampler     *sampler // never changed

	given   atomic.Pointer[given]
	current choice // guarded by inForce.mu, and written by Run's goroutine only
	looks   int    // at the record, guarded by inForce.mu; see Looked

	watch     watch
	announcer announcer
	rejected  Number // announced by another, and no better than ours
	wasDue    bool   // at the last look
}

// given is what the rules that were given last make of a managed rule.
type given struct {
	rule  *policy.Rule // without a dictionary
	tally *tally
}

// newManaged makes what is managed for the values of a login, within so many bytes of memory.
func newManaged(o *Options, fingerprint, login string, memory int, noSample []string) *managed {
	r := &managed{fingerprint: fingerprint, login: login, noSample: noSample}
	r.sampler = newSampler(memory, o.MaxSample, noSample)
	r.watch = newWatch(o, r.sampler)
	r.announcer = announcer{o: o, name: fingerprint, tally: r.tally}
	return r
}

func (r *managed) rule() *policy.Rule { return r.given.Load().rule }

func (r *managed) tally() *tally { return r.given.Load().tally }

// resume finds out what the dictionary in force has promised, after rules were changed.
func (r *managed) resume() {
	v := r.announcer.record.Current
	if v != nil && r.watch.schedule.promised == 0 && r.current.is(uint32(v.Dict)) {
		r.watch.schedule.rolledOut(v.At, v.Promised)
	}
}
