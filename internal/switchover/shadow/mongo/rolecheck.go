package mongo

import (
	"context"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

var errMongos = errors.New("it is a mongos: mirror a single server, or one primary")

// Fit fails if a server is known to be unsuited for its role. New has checked the targets' logins, and that
// they accept writes.
func (p *Protocol) Fit(ctx context.Context, production, control, test *shadow.Target) error {
	for _, t := range []*shadow.Target{production, control, test} {
		if t.Upstream.Address == "" {
			continue
		}
		h, err := greet(ctx, t.Upstream)
		switch {
		case err != nil && t != production: // production may come back
			return fmt.Errorf("%s: %w", t, err)
		case err == nil && h.isMongos():
			return fmt.Errorf("%s: %w", t, errMongos)
		}
	}
	return nil
}
