package open

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// If a URL names several Redis servers, commands connect to one first: to a node that answers, from which its
// cluster is found, or to the primary that the Sentinels name.

// probeTimeout limits the requests to one server while connecting.
const probeTimeout = 2 * time.Second

// firstServer returns the server to connect to first. like provides the TLS settings for all.
func firstServer(ctx context.Context, servers config.RedisServers, like endpoint.Upstream) (endpoint.Upstream, error) {
	hosts := ApplyTLS(like, slices.Clone(servers.Hosts))
	switch servers.Kind {
	case config.Sentinel:
		return findPrimary(ctx, servers, hosts)
	case config.Cluster:
		return firstAnswering(ctx, hosts)
	}
	return hosts[0], nil // not probed: the caller's connection reports errors
}

// firstAnswering returns the first node of a cluster that works.
func firstAnswering(ctx context.Context, nodes []endpoint.Upstream) (endpoint.Upstream, error) {
	var errs []error
	for _, up := range nodes {
		err := probe(ctx, up)
		if err == nil {
			return up, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", up.Address, err))
	}
	return endpoint.Upstream{}, errors.Join(errs...)
}

// probe sends CLUSTER INFO. It returns nil for any answer, even an error, unless the node is still loading.
func probe(ctx context.Context, up endpoint.Upstream) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	o := clientOptions(up)
	client := redis.NewClient(&o)
	defer client.Close()
	err := client.ClusterInfo(ctx).Err()
	var answer redis.Error
	if errors.As(err, &answer) && !redis.HasErrorPrefix(err, "LOADING") {
		return nil
	}
	return err
}

var errNoPrimary = errors.New("the Sentinels know no primary of that name")

// findPrimary asks the Sentinels in order, and then the server that they name for its role, since their answer
// may be outdated.
func findPrimary(ctx context.Context, servers config.RedisServers, hosts []endpoint.Upstream) (endpoint.Upstream, error) {
	var errs []error
	for _, sentinel := range hosts {
		up, err := askSentinel(ctx, servers, sentinel)
		if err == nil {
			return up, nil
		}
		errs = append(errs, fmt.Errorf("sentinel %s: %w", sentinel.Address, err))
	}
	return endpoint.Upstream{}, errors.Join(errs...)
}

func askSentinel(ctx context.Context, servers config.RedisServers, sentinel endpoint.Upstream) (up endpoint.Upstream, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	sentinel.User, sentinel.Password = servers.SentinelUser, servers.SentinelPassword
	o := clientOptions(sentinel)
	asked := redis.NewSentinelClient(&o)
	defer asked.Close()
	addr, err := asked.GetMasterAddrByName(ctx, servers.Master).Result()
	if errors.Is(err, redis.Nil) || err == nil && len(addr) != 2 {
		return up, fmt.Errorf("%w: %s", errNoPrimary, servers.Master)
	}
	if err != nil {
		return up, err
	}
	up = servers.Hosts[0]
	up.TLS = sentinel.TLS
	up.Host, up.Address = addr[0], net.JoinHostPort(addr[0], addr[1])
	po := clientOptions(up)
	primary := redis.NewClient(&po)
	defer primary.Close()
	role, err := primary.Do(ctx, "ROLE").Slice()
	var answer redis.Error
	switch {
	case errors.As(err, &answer): // the user may not call ROLE: on a replica, a write will fail
		return up, nil
	case err != nil:
		return up, err
	case len(role) == 0 || role[0] != "master":
		return up, fmt.Errorf("%w: %s is not a primary (yet)", errNoPrimary, up.Address)
	}
	return up, nil
}
