package pack

import (
	"context"
	"fmt"

	"github.com/cinch-layer/cinch/internal/store"
)

// forecastSample is the approximate number of keys examined on a node.
const forecastSample = 20000

// Shortage is an ErrNoRoom that Forecast predicts.
type Shortage struct {
	Node              string
	Need, Used, Limit int64 // bytes
}

func (s *Shortage) Error() string { return fmt.Sprintf("%s: %v", s.Node, ErrNoRoom) }

// Unwrap returns ErrNoRoom.
func (s *Shortage) Unwrap() error { return ErrNoRoom }

// Forecast estimates for each node, from a sample of its keys, whether its memory suffices for a run. It returns a
// Shortage if not. The sample includes the keys of other workers: their values grow in the same memory, unless they
// are decompressed already.
func Forecast(ctx context.Context, o Options) error {
	o.DryRun, o.Sample, o.NoBackoff, o.Tell, o.Own = true, forecastSample, true, nil, nil
	byNode := make(map[store.Node][]store.Target)
	for _, t := range o.Targets {
		byNode[t.Node] = append(byNode[t.Node], t)
	}
	for n, targets := range byNode {
		o.Targets = targets
		report, err := Run(ctx, o)
		if err != nil {
			return err
		}
		m, err := n.Memory(ctx)
		if err != nil {
			return err
		}
		saved, margin := report.Estimate()
		need, limit := -saved+margin, limitOf(m)
		if limit > 0 && need > 0 && m.Used+need > limit {
			return &Shortage{n.Name(), need, m.Used, limit}
		}
	}
	return nil
}
