package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// FarGateway is an upstream to which links are opened as long as a gateway there announces that it accepts them. All
// clients share it.
type FarGateway struct {
	Support
	Upstream endpoint.Upstream
	Endpoint *Endpoint
	Benefit  string // what is compressed with what was sent before: "bodies are"
	// Ask asks the upstream, without a link, whether it accepts links. Dial calls it after a link has failed, because
	// the gateway there may just have died, which is no reason to stop using links. nil: each failure counts as a
	// refusal.
	Ask func(context.Context) (accepts bool, err error)

	logged atomic.Pointer[bool] // whether the last log line says that links are used; nil: none was logged
}

// dialTimeout limits the time to open a link.
const dialTimeout = 10 * time.Second

// Dial opens a link for a client (Owner.Client). check (nil: none) returns an error if the far gateway is of another
// version or for another protocol. If the upstream accepts connections but no link, Accepts is false for a while. If it
// accepts no connection the error wraps endpoint.ErrUnreachable. Dial logs a change between these cases.
func (f *FarGateway) Dial(alive context.Context, client string, check func(net.Conn) error) (net.Conn, error) {
	c, err := f.dialChecked(alive, client, check)
	if err != nil && f.Ask != nil && alive.Err() == nil && !errors.Is(err, endpoint.ErrUnreachable) {
		accepts, noAnswer := f.Ask(alive)
		switch {
		case noAnswer != nil:
			return nil, fmt.Errorf("%w: %w", endpoint.ErrUnreachable, noAnswer)
		case accepts:
			c, err = f.dialChecked(alive, client, check)
		}
	}
	log := f.Endpoint.cfg.Log
	switch {
	case err == nil:
		f.Made()
		if f.isNews(true) {
			log.Info("the upstream is a gateway that accepts links: "+f.Benefit+" compressed with what was sent before", "upstream", f.Upstream.String())
		}
		return c, nil
	case alive.Err() != nil, errors.Is(err, endpoint.ErrUnreachable):
		return nil, err
	}
	f.Refused()
	if f.isNews(false) {
		log.Warn("no link to the far gateway: "+f.Benefit+" not compressed with what was sent before"+RefusalCause(err), "upstream", f.Upstream.String(), "err", err)
	}
	return nil, err
}

// RefusalCause returns the likely causes of an error of Dial, to append to a log line; "" if the error names its cause.
func RefusalCause(err error) string {
	if errors.Is(err, errKey) {
		return ""
	}
	return "; it may be full, or a proxy between the gateways passes only protocols that it knows"
}

func (f *FarGateway) dialChecked(alive context.Context, client string, check func(net.Conn) error) (net.Conn, error) {
	c, err := f.dial(alive, client)
	if err == nil && check != nil {
		if err = check(c); err != nil {
			_ = c.Close()
		}
	}
	return c, err
}

func (f *FarGateway) dial(alive context.Context, client string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(alive, dialTimeout)
	defer cancel()
	raw, err := gateway.Dial(ctx, f.Upstream, f.Endpoint.cfg.Stats)
	if err != nil {
		return nil, err
	}
	c, err := f.Endpoint.Enter(ctx, raw, client)
	if err != nil {
		_ = gateway.Abort(raw)
	}
	return c, err
}

// Unannounced logs that the upstream answers but does not accept links, unless that was logged last.
func (f *FarGateway) Unannounced() {
	if !f.Accepts() && f.isNews(false) {
		f.Endpoint.cfg.Log.Warn("the upstream is no gateway that accepts links (peers): "+f.Benefit+" not compressed with what was sent before", "upstream", f.Upstream.String())
	}
}

// isNews reports whether the use of links differs from what was logged last, and records it as logged.
func (f *FarGateway) isNews(linked bool) bool {
	last := f.logged.Swap(&linked)
	return last == nil || *last != linked
}
