package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// ClusterDictsOptions configure ClusterDicts. NewClient is required.
type ClusterDictsOptions struct {
	// NewClient makes the client for a node's Dicts; see DictsOptions. It is closed when the node leaves.
	NewClient func(dial func(context.Context) (net.Conn, error)) *goredis.Client
	Local     *dict.Set      // of all nodes; nil: a new set
	Log       *slog.Logger   // nil: slog.Default()
	Errors    panics.Counter // counts panics; nil: they are only logged
	Period    time.Duration
}

// ClusterDicts is Dicts for a cluster. Slots move between nodes with their values but without dictionaries. So a
// value may name a dictionary only once all primaries hold it. A dictionary that any primary holds is copied to
// those that lack it, such as new primaries. One that a node lacks is looked up in the others. Servers must have
// functions, since a key would exist only in the node with its slot.
type ClusterDicts struct {
	o       ClusterDictsOptions
	log     *slog.Logger
	ctx     context.Context // ends the background work
	cancel  context.CancelFunc
	wake    chan struct{} // capacity 1
	leaders atomic.Pointer[[]*NodeDicts]

	mu        sync.Mutex // not locked during I/O
	nodes     map[string]*NodeDicts
	published map[uint32]*codec.Dict // by Publish; also stored in nodes that join later
	found     map[uint32]struct{}    // found by their numbers; also stored in primaries that join later
}

// NodeDicts holds the dictionaries of a cluster's node for its gateway: its own Dicts, and behind them those of
// its cluster.
type NodeDicts struct {
	*Dicts
	id      string
	cluster *ClusterDicts
	client  *goredis.Client
	cancel  context.CancelFunc
}

// NewClusterDicts returns a ClusterDicts without nodes. Close it after use.
func NewClusterDicts(o ClusterDictsOptions) *ClusterDicts {
	if o.Local == nil {
		o.Local = new(dict.Set)
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	c := &ClusterDicts{
		o: o, log: o.Log, wake: make(chan struct{}, 1),
		nodes: map[string]*NodeDicts{}, published: map[uint32]*codec.Dict{}, found: map[uint32]struct{}{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.leaders.Store(&[]*NodeDicts{})
	return c
}

// Join makes the Dicts of a node, to which dial connects, and runs it until the node leaves. It does not
// block.
func (c *ClusterDicts) Join(id string, dial func(context.Context) (net.Conn, error)) *NodeDicts {
	client := c.o.NewClient(dial)
	n := &NodeDicts{id: id, cluster: c, client: client, Dicts: NewDicts(DictsOptions{
		Client: client, Local: c.o.Local, Log: c.log.With("node", id), Period: c.o.Period,
	})}
	ctx, cancel := context.WithCancel(c.ctx)
	n.cancel = cancel
	c.mu.Lock()
	if former := c.nodes[id]; former != nil {
		former.cancel()
	}
	c.nodes[id] = n
	for _, x := range c.published {
		_ = n.keep(x) // the local set has it under its number already
	}
	c.mu.Unlock()
	go func() {
		defer panics.Catch(c.log, c.o.Errors, nil)
		defer client.Close()
		panics.KeepRunning(ctx, c.log, c.o.Errors, n.Run)
	}()
	return n
}

// Leave stops the Dicts of a node.
func (c *ClusterDicts) Leave(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[id]; n != nil {
		n.cancel()
		delete(c.nodes, id)
	}
}

// Lead sets the primaries. The first keeps the records, so all gateways of a cluster must agree on it. It
// does not block.
func (c *ClusterDicts) Lead(primaries []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	leaders := make([]*NodeDicts, 0, len(primaries))
	for _, id := range primaries {
		if n := c.nodes[id]; n != nil {
			leaders = append(leaders, n)
		}
	}
	if slices.Equal(leaders, *c.leaders.Load()) {
		return
	}
	c.leaders.Store(&leaders)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Close stops the Dicts of all nodes.
func (c *ClusterDicts) Close() { c.cancel() }

// Run copies dictionaries that any primary holds to all others: at once when the primaries change, and
// periodically, until ctx ends.
func (c *ClusterDicts) Run(ctx context.Context) {
	retry := firstRetry
	for {
		wait := orDefault(c.o.Period, defaultPeriod)
		if err := c.spread(ctx); err != nil && ctx.Err() == nil {
			c.log.Warn("can't store dictionaries on all primaries of the cluster", "err", err)
			wait = min(retry, wait)
			retry = 2 * wait
		} else {
			retry = firstRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-c.wake:
		}
	}
}

func (c *ClusterDicts) spread(ctx context.Context) error {
	leaders := *c.leaders.Load()
	all := make([]*Dicts, len(leaders))
	for i, n := range leaders {
		all[i] = n.Dicts
	}
	held, err := DictStates(ctx, all)
	if err != nil {
		return err
	}
	if _, err = Spread(ctx, all, held, c.Dictionary, func(x *codec.Dict, node int) {
		c.log.Info("dictionary copied to a primary that lacked it", "dictionary", name(x), "node", leaders[node].id)
	}); err != nil {
		return err
	}
	return c.trackFound(leaders)
}

// trackFound makes each primary check the dictionaries that were found by number in any of them: values may name
// one only after all primaries have seen it stored.
func (c *ClusterDicts) trackFound(leaders []*NodeDicts) error {
	c.mu.Lock()
	numbers := slices.Sorted(maps.Keys(c.found))
	c.mu.Unlock()
	var errs []error
	for _, number := range numbers {
		for _, n := range leaders {
			if err := n.track(number); err != nil {
				errs = append(errs, fmt.Errorf("dictionary %08x: %w", number, err))
			}
		}
	}
	return errors.Join(errs...)
}

// Ready reports whether all primaries hold the dictionary. It neither blocks nor allocates.
func (c *ClusterDicts) Ready(number uint32) bool {
	leaders := *c.leaders.Load()
	for _, n := range leaders {
		if !n.Ready(number) {
			return false
		}
	}
	return len(leaders) > 0
}

// Retired reports whether any primary says that the dictionary is retired.
func (c *ClusterDicts) Retired(number uint32) bool {
	return slices.ContainsFunc(*c.leaders.Load(), func(n *NodeDicts) bool { return n.Retired(number) })
}

// Publish stores dictionaries in all nodes, and in those that join later.
func (c *ClusterDicts) Publish(ctx context.Context, dicts ...*codec.Dict) error {
	c.mu.Lock()
	for _, x := range dicts {
		c.published[x.Number()] = x
	}
	nodes := slices.Collect(maps.Values(c.nodes))
	c.mu.Unlock()
	var refused []error
	for _, x := range dicts {
		if err := c.o.Local.Add(x); err != nil {
			refused = append(refused, fmt.Errorf("dictionary %s: %w: %w", name(x), ErrCollision, err))
		}
	}
	return errors.Join(append(refused, c.eachNode(nodes, func(n *NodeDicts) error { return n.Publish(ctx, dicts...) }))...)
}

// Recheck calls Dicts.Recheck for all nodes.
func (c *ClusterDicts) Recheck(ctx context.Context) error {
	return c.eachNode(c.all(), func(n *NodeDicts) error { return n.Recheck(ctx) })
}

func (c *ClusterDicts) all() []*NodeDicts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.nodes))
}

func (c *ClusterDicts) eachNode(nodes []*NodeDicts, do func(*NodeDicts) error) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() {
			defer panics.Catch(c.log, c.o.Errors, func() { errs[i] = panics.Err })
			errs[i] = do(n)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// ErrNoNode means that the primaries have not been looked up yet, or that there are none.
var ErrNoNode = errors.New("no primary of the cluster has been found yet")

// Dictionary finds a dictionary in memory or in any primary. From then on all primaries check for it, so that
// values may name it.
func (c *ClusterDicts) Dictionary(number uint32) (*codec.Dict, error) {
	leaders := *c.leaders.Load()
	if len(leaders) == 0 {
		if x, ok := c.o.Local.Get(number); ok {
			c.remember(number)
			return x, nil
		}
		return nil, ErrNoNode
	}
	x, err := leaders[0].Dictionary(number)
	if err == nil {
		c.remember(number)
	}
	return x, err
}

// Adopt is Dicts.Adopt of the first primary that has the dictionary. Values may name it once all primaries have it.
func (c *ClusterDicts) Adopt(ctx context.Context, number uint32) error {
	err := ErrNoNode
	if _, ok := c.o.Local.Get(number); ok {
		err = nil
	}
	for i, n := range *c.leaders.Load() {
		if err == nil {
			break
		}
		trouble := n.Adopt(ctx, number)
		if i == 0 || trouble == nil || errors.Is(err, envelope.ErrDictMissing) {
			err = trouble
		}
	}
	if err == nil {
		c.remember(number)
	}
	return err
}

func (c *ClusterDicts) remember(number uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.found[number]; known {
		return
	}
	c.found[number] = struct{}{}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Dictionary asks the node, and then the other primaries of its cluster. It returns envelope.ErrDictMissing only
// if all of them lack the dictionary.
func (n *NodeDicts) Dictionary(number uint32) (*codec.Dict, error) {
	x, err := n.Dicts.Dictionary(number)
	for _, other := range *n.cluster.leaders.Load() {
		if err == nil {
			return x, nil
		}
		if other == n {
			continue
		}
		found, trouble := other.Dicts.Dictionary(number)
		if trouble == nil || errors.Is(err, envelope.ErrDictMissing) {
			x, err = found, trouble
		}
	}
	return x, err
}

// ReadyOn is Dicts.ReadyOn. All primaries must hold the dictionary too, since the value's slot may move.
func (n *NodeDicts) ReadyOn(number uint32, dialed time.Time) bool {
	return n.Dicts.ReadyOn(number, dialed) && n.cluster.Ready(number)
}

// Ensure calls Dicts.Ensure of the first primary.
func (c *ClusterDicts) Ensure(ctx context.Context, conn *goredis.Conn, numbers ...uint32) error {
	leaders := *c.leaders.Load()
	if len(leaders) == 0 {
		return ErrNoNode
	}
	return leaders[0].Ensure(ctx, conn, numbers...)
}

// Record calls Dicts.Record of the first primary.
func (c *ClusterDicts) Record(ctx context.Context, name string) (text string, version uint64, err error) {
	leaders := *c.leaders.Load()
	if len(leaders) == 0 {
		return "", 0, ErrNoNode
	}
	return leaders[0].Record(ctx, name)
}

// ReplaceRecord calls Dicts.ReplaceRecord of the first primary.
func (c *ClusterDicts) ReplaceRecord(ctx context.Context, name string, version uint64, text string) (next uint64, err error) {
	leaders := *c.leaders.Load()
	if len(leaders) == 0 {
		return 0, ErrNoNode
	}
	return leaders[0].ReplaceRecord(ctx, name, version, text)
}
