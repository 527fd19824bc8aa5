package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Reasons why a server can't be mirrored, or be a target.
var (
	errCluster  = errors.New("it is a node of a cluster: mirror a single server, or a primary and its replicas")
	errSentinel = errors.New("it is a Sentinel: name the primary that it watches")
	errReplica  = errors.New("it is a replica, which refuses writes: promote it (REPLICAOF NO ONE)")
	errLoading  = errors.New("it is still loading its data: wait until it has")
)

// Fit fails if a server is known to be unsuited for its role.
func (p *Protocol) Fit(ctx context.Context, production, control, test *shadow.Target) error {
	if s, err := queryServer(ctx, production); err == nil && s.known { // production may be down for now
		if err := s.roleError(); err != nil {
			return fmt.Errorf("%s: %w", production, err)
		}
	}
	for _, t := range []*shadow.Target{control, test} {
		s, err := queryServer(ctx, t)
		switch {
		case isDenied(err):
			continue // INFO is not allowed, but clients' commands may be
		case err != nil:
			return terminal.WithHint(err, shadow.HintReach)
		}
		if err := errors.Join(s.roleError(), s.targetError()); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

// roleError returns an error for a server that can be neither production nor a target.
func (s server) roleError() error {
	switch {
	case s.info["redis_mode"] == "sentinel" || s.info["server_mode"] == "sentinel":
		return errSentinel
	case s.info["cluster_enabled"] == "1":
		return errCluster
	}
	return nil
}

// targetError returns an error for a server that can't be a target.
func (s server) targetError() error {
	switch {
	case s.info["role"] == "slave":
		return errReplica
	case s.info["loading"] == "1":
		return errLoading
	}
	return nil
}
