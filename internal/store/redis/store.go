package redis

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// A Store is background access to the values of a standalone server or of a cluster's primaries, past any
// gateway. It is safe for concurrent use; close it after use.
//
//	Store -> Node, one a primary -> Space, one a database (a cluster has one only)
//
// Keys are found by the node's own client. Values are read and replaced by key; in a cluster that uses a
// client that follows moved slots.
type Store struct {
	base    goredis.Options
	cluster *goredis.ClusterClient // nil: standalone
	nodes   []*Node
	ready   prepared

	name     string
	readOnly bool
	indexes  indexView
	opened   []goredis.ClusterSlot // when it was opened
	part     slotPart              // see Part
	dicts    atomic.Pointer[StoreDicts]
	kept     store.Dicts // see OpenOptions.Dicts
	stop     context.CancelFunc
}

// OpenOptions configure Open. Client is required.
type OpenOptions struct {
	Client goredis.Options // address, credentials, TLS, timeouts; DB is not used
	DBs    []int           // nil: all that hold keys
	// OnConnect, unless nil, is called with each new connection to any node before the connection is used for
	// anything else.
	OnConnect func(context.Context, *goredis.Conn) error
	// ReadOnly promises that nothing will be replaced. Then a replica suffices, and no script is tried on the
	// server.
	ReadOnly bool
	Name     string // the store's name in messages, without credentials; "": the address

	// Local holds dictionaries besides those in the store, and receives those found; nil: none.
	Local *dict.Set
	// Maintain checks and restores published and found dictionaries while the store is open.
	Maintain bool
	// Dicts replaces the store's own dictionaries; nil: the store keeps them itself.
	Dicts store.Dicts
}

// Open connects to the server and looks up its role. For a replica it returns ErrReplica unless ReadOnly is
// set, since nothing could be replaced there.
func Open(ctx context.Context, o OpenOptions) (*Store, error) {
	s := &Store{base: o.Client, readOnly: o.ReadOnly, name: cmp.Or(o.Name, o.Client.Addr), kept: o.Dicts, stop: func() {}}
	s.base.DB, s.base.OnConnect = 0, s.onConnect(o.OnConnect)
	first := s.newNode(s.base.Addr)
	s.nodes = []*Node{first}
	if err := s.discover(ctx, o.DBs); err != nil {
		s.Close()
		return nil, err
	}
	if o.Local == nil {
		o.Local = new(dict.Set)
	}
	d := newStoreDicts(s, o.Local)
	s.dicts.Store(d)
	if o.Maintain {
		ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
		go panics.KeepRunning(ctx, nil, nil, d.Run) // no log and no panic counter: only tools use Maintain
	}
	return s, nil
}

// onConnect returns a hook for new connections. It also stores what was published: a node may be new, or
// restored from an old backup.
func (s *Store) onConnect(next func(context.Context, *goredis.Conn) error) func(context.Context, *goredis.Conn) error {
	return func(ctx context.Context, c *goredis.Conn) error {
		if err := setNoTouch(ctx, c); err != nil {
			return err
		}
		if d := s.dicts.Load(); d != nil {
			if err := d.Ensure(ctx, c); err != nil {
				return err
			}
		}
		if next == nil {
			return nil
		}
		return next(ctx, c)
	}
}

// setNoTouch asks a server that supports it (Redis 7.2) not to count Cinch's reads as use of the keys.
func setNoTouch(ctx context.Context, c *goredis.Conn) error {
	err := c.Process(ctx, goredis.NewStatusCmd(ctx, "client", "no-touch", "on"))
	if err != nil && isAnswer(err) {
		return nil
	}
	return err
}

func (s *Store) newNode(addr string) *Node {
	o := s.base
	o.Addr = addr
	return &Node{store: s, addr: addr, client: goredis.NewClient(&o)}
}

func (s *Store) discover(ctx context.Context, dbs []int) error {
	info, err := s.nodes[0].info(ctx)
	if err != nil {
		return err
	}
	if info["cluster_enabled"] == "1" {
		if len(dbs) > 0 && !slices.Equal(dbs, []int{0}) {
			return fmt.Errorf("%w: a cluster has database 0 only", errClient)
		}
		if err := s.discoverCluster(ctx); err != nil {
			return err
		}
	} else {
		if info["role"] == "slave" && !s.readOnly {
			return fmt.Errorf("%w of %s:%s", ErrReplica, info["master_host"], info["master_port"])
		}
		s.nodes[0].addSpaces(dbs, info)
	}
	return s.prepare(ctx)
}

// addSpaces adds the given databases; nil: all that hold keys.
func (n *Node) addSpaces(dbs []int, info map[string]string) {
	if dbs == nil {
		for name := range info {
			number, ok := strings.CutPrefix(name, "db")
			if db, err := strconv.Atoi(number); ok && err == nil {
				dbs = append(dbs, db)
			}
		}
		slices.Sort(dbs)
	}
	for _, db := range dbs {
		o := n.store.base
		o.Addr, o.DB = n.addr, db
		c := goredis.NewClient(&o)
		n.spaces = append(n.spaces, &Space{node: n, db: db, scan: c, values: c})
	}
}

// discoverCluster makes a node of every primary.
func (s *Store) discoverCluster(ctx context.Context) error {
	var err error
	if s.opened, err = s.slots(ctx); err != nil {
		return err
	}
	addrs := s.primaries(s.opened)
	_ = s.nodes[0].client.Close()
	s.nodes = nil
	s.cluster = goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: addrs, Username: s.base.Username, Password: s.base.Password, TLSConfig: s.base.TLSConfig, Dialer: s.base.Dialer,
		DialTimeout: s.base.DialTimeout, ReadTimeout: s.base.ReadTimeout, WriteTimeout: s.base.WriteTimeout,
		OnConnect: s.base.OnConnect, DisableIdentity: true, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: s.base.MaintNotificationsConfig,
	})
	for _, addr := range addrs {
		n := s.newNode(addr)
		n.spaces = []*Space{{node: n, scan: n.client, values: s.cluster}}
		s.nodes = append(s.nodes, n)
	}
	return nil
}

// slots asks the cluster which primary has which slots.
func (s *Store) slots(ctx context.Context) (slots []goredis.ClusterSlot, err error) {
	err = errClient
	for _, n := range s.nodes {
		//lint:ignore SA1019 CLUSTER SHARDS came with Redis 7
		if slots, err = n.client.ClusterSlots(ctx).Result(); err == nil {
			break
		}
	}
	slots = slices.DeleteFunc(slots, func(c goredis.ClusterSlot) bool { return len(c.Nodes) == 0 })
	return slots, err
}

// primaries returns the sorted addresses of the primaries that hold slots. The one that has slot 0 comes
// first, since gateways keep their records there.
func (s *Store) primaries(slots []goredis.ClusterSlot) []string {
	var addrs []string
	first := ""
	for _, slot := range slots {
		addr := s.reachable(slot.Nodes[0].Addr)
		if addrs = append(addrs, addr); slot.Start == 0 {
			first = addr
		}
	}
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	if i := slices.Index(addrs, first); i > 0 {
		addrs = slices.Insert(slices.Delete(addrs, i, i+1), 0, first)
	}
	return addrs
}

// Layout describes as text which primary of a cluster has which slots of the store's part. It changes when slots
// have moved; then a walk may have missed keys. For a standalone server it is always the same.
func (s *Store) Layout(ctx context.Context) (string, error) {
	if s.cluster == nil {
		return "", nil
	}
	slots, err := s.slots(ctx)
	return s.layoutOf(slots), err
}

func (s *Store) layoutOf(slots []goredis.ClusterSlot) string {
	var parts []string
	for _, slot := range slots {
		if s.part.overlaps(slot.Start, slot.End) {
			parts = append(parts, fmt.Sprintf("%05d-%05d=%s", slot.Start, slot.End, slot.Nodes[0].ID))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// reachable completes the address of a node that doesn't know its own host.
func (s *Store) reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host != "" {
		return addr
	}
	host, _, _ = net.SplitHostPort(s.base.Addr)
	return net.JoinHostPort(host, port)
}

// Nodes returns the primaries.
func (s *Store) Nodes() []*Node { return s.nodes }

// Cluster reports whether the server belongs to a cluster.
func (s *Store) Cluster() bool { return s.cluster != nil }

// Close ends all connections.
func (s *Store) Close() {
	s.stop()
	if s.cluster != nil {
		_ = s.cluster.Close()
	}
	for _, n := range s.nodes {
		_ = n.client.Close()
		for _, sp := range n.spaces {
			_ = sp.scan.Close()
		}
	}
}

// Store implements store.Store.
var _ store.Store = (*Store)(nil)

// Name implements store.Access.
func (s *Store) Name() string { return s.name }

// Explain implements store.Access.
func (s *Store) Explain(err error) error { return ExplainWalk(s.name, err) }

// DictAdmin implements store.Access.
func (s *Store) DictAdmin() store.DictAdmin {
	return &dictAdmin{name: s.name, nodes: func(context.Context) (*StoreDicts, error) { return s.dicts.Load(), nil }, explain: s.Explain}
}

// Value implements store.Access, for keys of database 0.
func (s *Store) Value(ctx context.Context, a store.Address) ([]byte, error) {
	if s.cluster != nil {
		return readValue(ctx, s.cluster, s.name, a)
	}
	return readValue(ctx, s.nodes[0].client, s.name, a)
}

// Dicts implements store.Store.
func (s *Store) Dicts() store.Dicts {
	if s.kept != nil {
		return s.kept
	}
	return s.dicts.Load()
}

// Targets implements store.Store.
func (s *Store) Targets() (all []store.Target) {
	for _, n := range s.nodes {
		for _, space := range n.spaces {
			all = append(all, store.Target{Node: n, Space: space})
		}
	}
	return all
}

// Moved implements store.Store: it reports whether slots have moved since the store was opened.
func (s *Store) Moved(ctx context.Context) (bool, error) {
	layout, err := s.Layout(ctx)
	return err == nil && layout != s.layoutOf(s.opened), err
}

// CompressionRules implements store.Store.
func (s *Store) CompressionRules(*policy.Policy) store.CompressionRules {
	return store.CompressionRules{Indexed: s.Indexed, Incomplete: func() error {
		err := s.IndexesUnknown()
		if err != nil {
			err = fmt.Errorf("no hash is compressed: the server has a search module and its indexes can't be listed, which needs +command|info +ft._list +ft.info: %w", err)
		}
		return err
	}}
}

// CanRead implements store.Store.
func (s *Store) CanRead(store.ReadOptions) error { return nil }

// Unavailable implements store.Store.
func (s *Store) Unavailable(err error) bool { return Unavailable(err) }

// MemorySetting implements store.Store.
func (s *Store) MemorySetting() string { return "maxmemory" }
