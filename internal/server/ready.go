package server

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

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

const (
	// probeInterval is the maximum age of an answer about the upstreams. However often readiness is probed,
	// it costs them no more than one connection in this time.
	probeInterval = time.Second
	// probeTimeout limits an answer: callers usually time out after one second, as Kubernetes does.
	probeTimeout = 800 * time.Millisecond
	// startTimeout limits the check of the upstreams at the start.
	startTimeout = 5 * time.Second
)

// probes caches the health of the gateways.
type probes struct {
	mu    sync.Mutex
	at    time.Time
	found []health
}

// health is the state of a gateway: err is why it can't serve clients, notes are problems that don't prevent
// serving.
type health struct {
	gateway string
	notes   []string
	err     error
}

func (h *health) prefixed(text string) string { return "gateway " + h.gateway + ": " + text }

var errDraining = errors.New("draining")

// readinessChecker is a gateway that can report whether its clients would be served, and other problems. For other
// gateways only the connection to the upstream is checked.
type readinessChecker interface {
	Ready(ctx context.Context) (notes []string, err error)
}

// ready reports whether clients would be served: the process isn't draining, and the gateways in question are
// ready.
func (p *Process) ready(q admin.ReadyQuery) (notes []string, err error) {
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
	return combineHealth(p.health(), q.Gateway, policy == config.ReadyAny)
}

// combineHealth combines the health of all gateways, or of the one named. With anyWillDo, gateways that are not
// ready become notes if one is.
func combineHealth(found []health, gateway string, anyWillDo bool) (notes []string, err error) {
	var errs []error
	served := false
	for _, h := range found {
		if gateway != "" && h.gateway != gateway {
			continue
		}
		for _, note := range h.notes {
			notes = append(notes, h.prefixed(note))
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

// health returns the health of all gateways, at most probeInterval old.
func (p *Process) health() []health {
	p.probes.mu.Lock()
	defer p.probes.mu.Unlock()
	if p.probes.found == nil || time.Since(p.probes.at) >= probeInterval {
		p.probes.found = p.probe(probeTimeout)
		p.probes.at = time.Now()
	}
	return p.probes.found
}

// probe asks all gateways concurrently. A client takes two file descriptors, one for its own connection and one
// for the upstream's. A probe takes only the second, so probe holds another one meanwhile: if descriptors run out
// for clients, it fails, too.
func (p *Process) probe(timeout time.Duration) []health {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if client, err := os.Open(os.DevNull); err == nil { // if this fails, the probes fail too and report why
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

// tryReady turns a panic into an error.
func (r *running) tryReady(ctx context.Context) (notes []string, err error) {
	defer panics.Catch(r.log, r.stats, func() { err = panics.Err })
	return r.ready(ctx)
}

func (r *running) ready(ctx context.Context) (notes []string, err error) {
	j, ok := r.gateway.(readinessChecker)
	if !ok {
		return nil, r.dialAny(ctx)
	}
	if notes, err = j.Ready(ctx); err != nil {
		return nil, err
	}
	return append(notes, r.missingDicts()...), nil
}

// missingDicts returns notes on dictionaries that rules name and values can't use yet.
func (r *running) missingDicts() (notes []string) {
	if r.store == nil || r.auto.Policy().Off {
		return nil
	}
	for _, number := range r.auto.Policy().Dictionaries() {
		if !r.store.dicts.Ready(number) {
			notes = append(notes, fmt.Sprintf("dictionary %08x is missing on at least one server: values are compressed without it", number))
		}
	}
	return notes
}

// servers returns the upstream and its alternatives.
func (r *running) servers() []endpoint.Upstream {
	return append([]endpoint.Upstream{r.upstream}, r.others...)
}

// dialAny connects to the upstream. Of several servers one has to answer.
func (r *running) dialAny(ctx context.Context) (err error) {
	for _, up := range r.servers() {
		var c net.Conn
		if c, err = up.Dial(ctx); err == nil {
			_ = c.Close()
			return nil
		}
	}
	return err
}

// warnUnreachable logs at the start which gateways could not serve clients. The process starts all the same: the
// store may come up later.
func (p *Process) warnUnreachable() {
	if _, err := combineHealth(p.probe(startTimeout), "", false); err != nil {
		p.log.Warn("upstream unreachable, clients get errors until it answers", "err", err)
	}
}
