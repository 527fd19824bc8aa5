package cinchredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
)

// servers are those that hold a client's values: one, or the primaries of a cluster.
type servers interface {
	connect(ctx context.Context) (connected, error)
}

// connected are servers that can be asked: as long as it is not closed.
type connected struct {
	readers []storeredis.Reader
	clients []*redis.Client
	name    string // of the client's user, if the server does not say
	close   func()
}

// newServers returns a client's servers, and the number of its database.
func newServers(rdb redis.UniversalClient) (s servers, space string, err error) {
	switch c := rdb.(type) {
	case *redis.Client:
		return single{c}, strconv.Itoa(c.Options().DB), nil
	case *redis.ClusterClient:
		if o := c.Options(); o.ClusterSlots != nil && o.OnConnect != nil { // how NewFailoverClusterClient selects a database
			return nil, "", fmt.Errorf("%w: a NewFailoverClusterClient with a DB, or with OnConnect, does not say which database its values are in: use NewFailoverClient", ErrUnsupported)
		}
		return cluster{c}, "0", nil
	case *redis.Ring:
		return nil, "", fmt.Errorf("%w: a Ring's servers have a policy each: attach in RingOptions.NewClient, to each server's client", ErrUnsupported)
	}
	return nil, "", fmt.Errorf("%w: %T", ErrUnsupported, rdb)
}

type single struct{ rdb *redis.Client }

// connect makes a connection of our own: those of the client may be in another database, and all in use by commands that wait for us.
func (s single) connect(context.Context) (connected, error) {
	o := *s.rdb.Options()
	o.DB, o.PoolSize, o.MinIdleConns, o.MaxActiveConns = 0, 1, 0, 0
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	own := redis.NewClient(&o)
	return connectedTo(o.Username, func() { _ = own.Close() }, own), nil
}

type cluster struct{ rdb *redis.ClusterClient }

// connect takes the connections of the nodes, on which commands don't wait for us.
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

// record is the latest version of a record that any server has.
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

// live reports that all servers have a dictionary: values move between them.
func (c connected) live(ctx context.Context, number uint32) (bool, error) {
	for _, r := range c.readers {
		if live, err := r.Live(ctx, number); !live || err != nil {
			return false, err
		}
	}
	return len(c.readers) > 0, nil
}

// dictionary is that of any server.
func (c connected) dictionary(ctx context.Context, number uint32) (*codec.Dict, error) {
	missing := cinch.ErrDictMissing
	for _, r := range c.readers {
		d, err := r.Dictionary(ctx, number)
		if err == nil {
			return d, nil
		}
		if !errors.Is(err, cinch.ErrDictMissing) {
			missing = err
		}
	}
	return nil, missing
}

// login is the client's user, "" for the server's default one.
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
