package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

// Control is an operation that a gateway offers to other processes. It takes JSON and returns the State.
type Control struct {
	Name string
	Do   func(ctx context.Context, asked []byte) (any, error)
}

// Controls returns all operations.
func (g *Gateway) Controls() []Control {
	return []Control{
		{"check", decoding(func(ctx context.Context, _ struct{}) (control.State, error) { return g.Check(ctx) })},
		{"reach", decoding(g.Reach)},
		{"hold", decoding(g.Hold)},
		{"move", decoding(g.Move)},
		{"release", decoding(func(ctx context.Context, _ struct{}) (control.State, error) { return g.Release(ctx) })},
		{"report", decoding(func(_ context.Context, r control.Report) (control.State, error) {
			g.report.Store(&r)
			return g.State(), nil
		})},
	}
}

// decoding decodes the argument of a control. An empty one stands for all defaults.
func decoding[T any](do func(context.Context, T) (control.State, error)) func(context.Context, []byte) (any, error) {
	return func(ctx context.Context, asked []byte) (any, error) {
		var t T
		if asked = bytes.TrimSpace(asked); len(asked) > 0 && string(asked) != "null" {
			d := json.NewDecoder(bytes.NewReader(asked))
			d.DisallowUnknownFields()
			if err := d.Decode(&t); err != nil {
				return nil, fmt.Errorf("the request's body: %w", err)
			}
		}
		st, err := do(ctx, t)
		if err != nil {
			return nil, err
		}
		return st, nil
	}
}
