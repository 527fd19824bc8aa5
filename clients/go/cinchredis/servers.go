package cinchredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// servers connects to the servers that hold a client's values: one, or the primaries of a cluster.
type servers interface {
	connect(ctx context.Context) (connected, error)
}

// connected holds connections to servers, until it is closed.
type connected struct {
	readers []storeredis.Reader
	clients []*redis.Client
	name    string // of the client's user, if the server does not report it
	close   func()
}

// newServers returns a client's servers, and the number of its database.
func newServers(rdb redis.UniversalClient) (s servers, space string, err error) {
	switch c := rdb.(type) {
	case *redis.Client:
		return single{c}, strconv.Itoa(c.Options().DB), nil
	case *redis.ClusterClient:
		if o := c.Options(); o.ClusterSlots != nil && o.OnConnect != nil { // of NewFailoverClusterClient
			return nil, "", fmt.Errorf("%w: a NewFailoverClusterClient with a DB, or with OnConnect, does not say which database its values are in: use NewFailoverClient", ErrUnsupported)
		}
		return cluster{c}, "0", nil
	case *redis.Ring:
		return nil, "", fmt.Errorf("%w: a Ring's servers have a policy each: attach in RingOptions.NewClient, to each server's client", ErrUnsupported)
	}
	return nil, "", fmt.Errorf("%w: %T", ErrUnsupported, rdb)
}

type single struct{ rdb *redis.Client }

// connect opens a separate connection: the client's may be in another database, or all be in use by commands
// that wait for this one.
func (s single) connect(context.Context) (connected, error) {
	o := *s.rdb.Options()
	o.DB, o.PoolSize, o.MinIdleConns, o.MaxActiveConns = 0, 1, 0, 0
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	own := redis.NewClient(&o)
	return connectedTo(o.Username, func() { _ = own.Close() }, own), nil
}

type cluster struct{ rdb *redis.ClusterClient }

// connect uses the nodes' connections, since no commands on them wait for this package.
func (c cluster) connect(ctx context.Context) (connected, error) {
	var mu sync.Mutex
	var nodes []*redis.Client
	err := c.rdb.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	})
	return connectedTo(c.rdb.Options().Username, func() {}, nodes...), err
}

func connectedTo(name string, end func(), clients ...*redis.Client) connected {
	all := connected{clients: clients, name: name, close: end}
	for _, c := range clients {
		all.readers = append(all.readers, storeredis.NewReader(c))
	}
	return all
}

// record returns the latest version of a record in any server.
func (c connected) record(ctx context.Context, name string) (text string, err error) {
	last := uint64(0)
	for _, r := range c.readers {
		here, version, err := r.Record(ctx, name)
		if err != nil {
			return "", err
		}
		if version > last {
			text, last = here, version
		}
	}
	return text, nil
}

// live reports whether all servers have a dictionary that is not retired, since values move between them.
func (c connected) live(ctx context.Context, number uint32) (bool, error) {
	for _, r := range c.readers {
		if live, err := r.Live(ctx, number); !live || err != nil {
			return false, err
		}
	}
	return len(c.readers) > 0, nil
}

// dictionary returns the dictionary from any server that has it.
func (c connected) dictionary(ctx context.Context, number uint32) (*codec.Dict, error) {
	missing := envelope.ErrDictMissing
	for _, r := range c.readers {
		d, err := r.Dictionary(ctx, number)
		if err == nil {
			return d, nil
		}
		if !errors.Is(err, envelope.ErrDictMissing) {
			missing = err
		}
	}
	return nil, missing
}

// login returns the client's user, "" for the server's default one.
func (c connected) login(ctx context.Context) string {
	name := c.name
	for _, client := range c.clients[:min(1, len(c.clients))] {
		if said, err := client.Do(ctx, "acl", "whoami").Text(); err == nil {
			name = said
		}
	}
	if name == "default" {
		return ""
	}
	return name
}

func isAnswer(err error) bool { return storeredis.IsAnswer(err) }
