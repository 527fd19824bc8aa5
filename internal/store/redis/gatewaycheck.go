package redis

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// gatewayCheckTimeout limits the check whether an address leads to a Cinch gateway.
const gatewayCheckTimeout = 5 * time.Second

// WithGatewayCheck returns the options of a client that checks each address before its first connection there. If
// a Cinch gateway answers, it calls found; an error of found fails the connection.
func WithGatewayCheck(o goredis.Options, found func(address string, g store.Gateway) error) goredis.Options {
	o.MaintNotificationsConfig = noMaintenance()
	ask := o
	if ask.Dialer == nil {
		ask.Dialer = goredis.NewDialer(&o)
	}
	dial := ask.Dialer
	var asked sync.Map // addresses that are known not to be gateways
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, known := asked.Load(address); !known {
			ask := ask
			ask.Network, ask.Addr = network, address
			g, sure, err := FindGateway(ctx, ask)
			if err == nil && g != nil {
				err = found(address, *g)
			}
			if err != nil {
				return nil, err
			}
			if sure {
				asked.Store(address, true)
			}
		}
		return dial(ctx, network, address)
	}
	return o
}

// noMaintenance disables go-redis's request for maintenance notifications, which servers without them count
// as an error.
func noMaintenance() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// FindGateway checks whether an address leads to a Cinch gateway. It uses a separate connection, since some servers
// and proxies close the connection at an unknown command. g is nil if no gateway answers. sure is then true if the
// server accepted the connection and answered the command. Otherwise there may be a gateway that is full, or that
// can't reach its own server.
func FindGateway(ctx context.Context, o goredis.Options) (g *store.Gateway, sure bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, gatewayCheckTimeout)
	defer cancel()
	var unreached atomic.Pointer[error] // atomic: after a timeout the client leaves its dial running
	o.MaintNotificationsConfig = noMaintenance()
	o.DB, o.PoolSize, o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = 0, 1, -1, 1, true
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			unreached.Store(&err)
		}
		return c, err
	}
	o.OnConnect = func(context.Context, *goredis.Conn) error {
		sure = true
		return nil
	}
	client := goredis.NewClient(&o)
	defer client.Close()
	list, err := client.Do(ctx, resp.GatewayCommand).StringSlice()
	var timeout net.Error
	switch {
	case err == nil && len(list) == 3 && list[0] == resp.GatewayCommand:
		return &store.Gateway{Name: list[1], Upstream: list[2]}, sure, nil
	case unreached.Load() != nil:
		return nil, false, *unreached.Load()
	case errors.As(err, &timeout) && timeout.Timeout(), ctx.Err() != nil:
		return nil, false, err
	}
	var answer goredis.Error
	return nil, sure && (err == nil || errors.As(err, &answer)), nil
}
