package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/observe/admin"
)

// packActions returns the actions that pause and resume background packing.
func (p *Process) packActions() []admin.Action {
	return []admin.Action{
		{Name: "pack-pause", Do: func(ctx context.Context, posted []byte) (any, error) {
			return p.withPacker(ctx, posted, (*packer).pauseNow)
		}},
		{Name: "pack-resume", Do: func(ctx context.Context, posted []byte) (any, error) {
			return p.withPacker(ctx, posted, (*packer).resumeNow)
		}},
	}
}

// pauseState is the reply to both actions: the new state.
type pauseState struct {
	Gateway  string     `json:"gateway"`
	Paused   bool       `json:"paused"`
	PausedAt *time.Time `json:"paused_at,omitempty"`
}

// pauseTimeout limits how long an action waits for the store.
const pauseTimeout = 10 * time.Second

// withPacker calls do with the packer of the gateway that was posted.
func (p *Process) withPacker(ctx context.Context, posted []byte, do func(*packer, context.Context) (pauseState, error)) (any, error) {
	k, err := p.packerOf(posted)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	now, err := do(k, ctx)
	switch {
	case err == nil:
		return now, nil
	case k.gateway.store.backend.isUnavailable(err):
		return nil, fmt.Errorf("gateway %s: the upstream does not answer, so nothing was changed: retry when it is back (%w)", k.gateway.name, err)
	}
	return nil, fmt.Errorf("gateway %s: the upstream refuses, so nothing was changed (%w); docs/PACK.md lists the rights needed", k.gateway.name, err)
}

// Reasons why there is nothing to pause.
var (
	errNoGatewayGiven = errors.New(`no gateway given: post {"gateway": "NAME"}`)
	errUnknownGateway = errors.New("there is no gateway with that name")
	errNoPacking      = errors.New("it does not pack in the background: set pack: {background: true} (Redis and Tarantool only)")
)

// packerOf returns the packer of the gateway that was posted.
func (p *Process) packerOf(posted []byte) (*packer, error) {
	var asked struct {
		Gateway string `json:"gateway"`
	}
	d := json.NewDecoder(bytes.NewReader(posted))
	d.DisallowUnknownFields()
	if err := d.Decode(&asked); err != nil || asked.Gateway == "" {
		return nil, errNoGatewayGiven
	}
	var names []string
	for _, r := range p.gateways {
		if r.name != asked.Gateway {
			names = append(names, r.name)
			continue
		}
		if r.packer == nil || !r.packer.packing().Background {
			return nil, fmt.Errorf("gateway %s: %w", r.name, errNoPacking)
		}
		return r.packer, nil
	}
	return nil, fmt.Errorf("gateway %.80q: %w; gateways: %s", asked.Gateway, errUnknownGateway, strings.Join(names, ", "))
}

// pauseNow pauses packing of the store by all gateways.
func (k *packer) pauseNow(ctx context.Context) (pauseState, error) {
	since, err := k.Pause(ctx)
	if err != nil {
		return pauseState{}, err
	}
	k.gateway.log.Info("an operator paused packing on all gateways of the store, until it is resumed", "client", admin.Client(ctx), "since", since)
	now := pauseState{Gateway: k.gateway.name, Paused: true}
	if !since.IsZero() {
		now.PausedAt = &since
	}
	return now, nil
}

// resumeNow resumes packing of the store by all gateways.
func (k *packer) resumeNow(ctx context.Context) (pauseState, error) {
	if err := k.Resume(ctx); err != nil {
		return pauseState{}, err
	}
	k.gateway.log.Info("an operator resumed packing on all gateways of the store", "client", admin.Client(ctx))
	return pauseState{Gateway: k.gateway.name}, nil
}
