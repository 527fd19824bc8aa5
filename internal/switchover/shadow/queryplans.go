package shadow

import (
	"context"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow/plans"
)

// plansOf collects the targets' plans of the worst fingerprints when a run has ended.
type plansOf struct {
	explainer Explainer // nil: the protocol has no plans
	targets   [targets]*Target

	mu  sync.Mutex
	all []plans.Pair
}

type sample struct {
	name string
	of   any
}

// explainTime limits the time for all plans together.
const explainTime = 30 * time.Second

func newPlansOf(p Protocol, of [targets]*Target) *plansOf {
	x := &plansOf{targets: of}
	x.explainer, _ = p.(Explainer)
	return x
}

// explain asks both targets for the plans of some operations.
func (x *plansOf) explain(ctx context.Context, worst []sample) {
	if x.explainer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	for _, s := range worst {
		p := plans.Compare(s.name, x.explainer.Explain(ctx, x.targets[control], s.of), x.explainer.Explain(ctx, x.targets[test], s.of))
		x.mu.Lock()
		x.all = append(x.all, p)
		x.mu.Unlock()
	}
}

// explained returns the plans collected so far.
func (x *plansOf) explained() []plans.Pair {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.all
}
