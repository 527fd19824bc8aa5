package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
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

// probes remembers what the upstreams were like.
type probes struct {
	mu    sync.Mutex
	at    time.Time
	notes []string
	last  error
}

var errDraining = errors.New("draining")

// judge is a gateway that knows itself whether its clients would be served, and what is amiss all the
// same. Of others it is asked whether the upstream takes connections.
type judge interface {
	Ready(ctx context.Context) (notes []string, err error)
}

// ready reports whether clients would be served: we are not draining, and so says each gateway.
func (p *Process) ready() (notes []string, err error) {
	if p.draining.Load() {
		return nil, errDraining
	}
	p.probes.mu.Lock()
	defer p.probes.mu.Unlock()
	if time.Since(p.probes.at) < probeInterval {
		return p.probes.notes, p.probes.last
	}
	p.probes.notes, p.probes.last = p.probe(probeTimeout)
	p.probes.at = time.Now()
	return p.probes.notes, p.probes.last
}

// probe asks all gateways at a time.
func (p *Process) probe(timeout time.Duration) (notes []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	errs, found := make([]error, len(p.gateways)), make([][]string, len(p.gateways))
	var all sync.WaitGroup
	for i, r := range p.gateways {
		all.Go(func() { found[i], errs[i] = r.ready(ctx) })
	}
	all.Wait()
	for i, r := range p.gateways {
		r.stats.SetTrouble(errs[i])
		if errs[i] != nil {
			errs[i] = fmt.Errorf("gateway %s: %w", r.name, errs[i])
		}
		for _, note := range found[i] {
			notes = append(notes, "gateway "+r.name+": "+note)
		}
	}
	return notes, errors.Join(errs...)
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
	if _, err := p.probe(startTimeout); err != nil {
		p.log.Warn("upstream unreachable, clients get errors until it is there", "err", err)
	}
}
