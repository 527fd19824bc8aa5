package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/admin"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/panics"
)

const (
	// probeInterval is how old an answer about the upstreams may be. Whoever asks, and however
	// often, costs them no more than a connection in this time.
	probeInterval = time.Second
	// probeTimeout bounds the answer: who asks waits for a second as a rule (Kubernetes does).
	probeTimeout = 800 * time.Millisecond
	// startTimeout bounds the look at the upstreams when we start.
	startTimeout = 5 * time.Second
)

// probes remembers what the gateways were like.
type probes struct {
	mu    sync.Mutex
	at    time.Time
	found []health
}

// health is what a gateway says of itself: why its clients would not be served, or what is amiss all the same.
type health struct {
	gateway string
	notes   []string
	err     error
}

func (h *health) says(text string) string { return "gateway " + h.gateway + ": " + text }

var errDraining = errors.New("draining")

// judge is a gateway that knows itself whether its clients would be served, and what is amiss all the
// same. Of others it is asked whether the upstream takes connections.
type judge interface {
	Ready(ctx context.Context) (notes []string, err error)
}

// ready reports whether clients would be served: we are not draining, and so say the gateways that are asked about.
func (p *Process) ready(q admin.Question) (notes []string, err error) {
	policy := cmp.Or(q.Policy, p.started.Admin.Ready)
	if policy != config.ReadyAll && policy != config.ReadyAny {
		return nil, admin.ErrNoPolicy
	}
	if q.Gateway != "" && !slices.ContainsFunc(p.gateways, func(r *running) bool { return r.name == q.Gateway }) {
		return nil, admin.ErrNoGateway
	}
	if p.draining.Load() {
		return nil, errDraining
	}
	return verdict(p.health(), q.Gateway, policy == config.ReadyAny)
}

// verdict sums up what gateways say, or one of them. Where any will do, those that are not ready are notes.
func verdict(found []health, gateway string, anyWillDo bool) (notes []string, err error) {
	var errs []error
	served := false
	for _, h := range found {
		if gateway != "" && h.gateway != gateway {
			continue
		}
		for _, note := range h.notes {
			notes = append(notes, h.says(note))
		}
		if served = served || h.err == nil; h.err != nil {
			errs = append(errs, fmt.Errorf("gateway %s: %w", h.gateway, h.err))
		}
	}
	if !anyWillDo || !served {
		return notes, errors.Join(errs...)
	}
	for _, err := range errs {
		notes = append(notes, "not ready: "+err.Error())
	}
	return notes, nil
}

// health is how the gateways are, asked at most once in a probeInterval.
func (p *Process) health() []health {
	p.probes.mu.Lock()
	defer p.probes.mu.Unlock()
	if p.probes.found == nil || time.Since(p.probes.at) >= probeInterval {
		p.probes.found = p.probe(probeTimeout)
		p.probes.at = time.Now()
	}
	return p.probes.found
}

// probe asks all gateways at a time. Meanwhile it holds one more file descriptor: a client takes two,
// its own connection and the upstream's, and the question only the second.
func (p *Process) probe(timeout time.Duration) []health {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if client, err := os.Open(os.DevNull); err == nil { // without it the questions fail, and say why
		defer client.Close()
	}
	found := make([]health, len(p.gateways))
	var all sync.WaitGroup
	for i, r := range p.gateways {
		all.Go(func() {
			notes, err := r.tryReady(ctx)
			r.stats.SetTrouble(err)
			found[i] = health{r.name, notes, err}
		})
	}
	all.Wait()
	return found
}

// tryReady makes an error of a panic.
func (r *running) tryReady(ctx context.Context) (notes []string, err error) {
	defer panics.Catch(r.log, r.stats, func() { err = panics.Err })
	return r.ready(ctx)
}

func (r *running) ready(ctx context.Context) (notes []string, err error) {
	j, ok := r.gateway.(judge)
	if !ok {
		return nil, r.reach(ctx)
	}
	if notes, err = j.Ready(ctx); err != nil {
		return nil, err
	}
	return append(notes, r.missingDicts()...), nil
}

// missingDicts tells of dictionaries that rules name, and values not yet.
func (r *running) missingDicts() (notes []string) {
	if r.keeper == nil || r.auto.Policy().Off {
		return nil
	}
	for _, number := range r.auto.Policy().Dictionaries() {
		if !r.keeper.dicts.Ready(number) {
			notes = append(notes, fmt.Sprintf("dictionary %08x is not in every server: values are sealed without it", number))
		}
	}
	return notes
}

// servers are the upstream, and those that do as well.
func (r *running) servers() []gateway.Upstream {
	return append([]gateway.Upstream{r.upstream}, r.others...)
}

// reach connects to the upstream; of several servers one has to answer.
func (r *running) reach(ctx context.Context) (err error) {
	for _, up := range r.servers() {
		up.Stats = nil // not a client's traffic
		var c net.Conn
		if c, err = up.Dial(ctx); err == nil {
			_ = c.Close()
			return nil
		}
	}
	return err
}

// warnUnreachable tells early what clients would find out. It is no reason not
// to start: the store may come up after us.
func (p *Process) warnUnreachable() {
	if _, err := verdict(p.probe(startTimeout), "", false); err != nil {
		p.log.Warn("upstream unreachable, clients get errors until it is there", "err", err)
	}
}
