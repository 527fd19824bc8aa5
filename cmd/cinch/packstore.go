package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/pack"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store/open"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/internal/ui"
)

// whereOptions say which store pack, unpack and verify go to, and by which rules.
type whereOptions struct {
	url        string
	configFile string
	gateway    string
	rules      []string
	dbs        []int
	dictFiles  []string
	zstd       string
	sealing    bool // it is about what rules cover, not about all that is stored
	readOnly   bool // nothing is replaced, so a replica will do (Tarantool)
	everywhere bool // all shards of Tarantool are meant, not one only

	shards []string // that the URL names (Tarantool)
}

func (o *whereOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.configFile, "config", "", "configuration `FILE`, with the gateway whose upstream is meant; variable "+configVariable)
	f.StringVar(&o.gateway, "gateway", "", "`NAME` of the gateway in it (needed if it has several)")
	f.IntSliceVar(&o.dbs, "db", nil, "`NUMBER` of a database (may be repeated; default: all)")
	f.StringArrayVar(&o.dictFiles, "dict", nil, "a dictionary `FILE`, beside those in the store and the configuration (may be repeated)")
	f.StringVar(&o.zstd, "zstd", "", "`NAME` of the implementation: libzstd, go or auto (default auto)")
}

// take reads URL and environment.
func (o *whereOptions) take(args []string) error {
	if len(args) == 1 {
		o.url = args[0]
	}
	if o.configFile == "" && o.url == "" {
		o.configFile = os.Getenv(configVariable)
	}
	o.url, o.shards = splitServers(o.url)
	if err := o.checkStore(); err != nil {
		return wrongUsage(err)
	}
	return wrongUsage(o.takeDB())
}

// checkStore refuses what names no store, or two.
func (o *whereOptions) checkStore() error {
	switch {
	case o.url == "" && o.configFile == "":
		return ui.WithHint(errors.New("which store?"), "give its URL, redis://host:6379, or --config FILE")
	case o.url != "" && !isStoreURL(o.url) && !isTarantoolURL(o.url):
		return noStore(o.url)
	case isTarantoolURL(o.url) && len(o.dbs) > 0:
		return ui.WithHint(errors.New("--db is for Redis"), "choose spaces by rules: --rule 'space=docs,field=body,setting=zstd-3'")
	case o.gateway != "" && o.configFile == "":
		return ui.WithHint(errors.New("--gateway is the name of a gateway in a configuration file"), "give the file with --config")
	case len(o.rules) > 0 && o.configFile != "":
		return ui.WithHint(errors.New("--rule is for a store that no configuration file describes"), "leave out --rule or --config")
	}
	return nil
}

// takeDB moves a database from the URL, where it is usual, to --db.
func (o *whereOptions) takeDB() error {
	if open.IsSeveral(o.url) {
		return nil
	}
	u, err := url.Parse(o.url)
	if err != nil {
		return errors.New("the URL can't be read") // not shown: it may hold a password
	}
	if path := strings.Trim(u.Path, "/"); path != "" && u.Scheme != "unix" && !isTarantoolURL(o.url) {
		db, err := strconv.Atoi(path)
		if err != nil || db < 0 {
			return fmt.Errorf("%s: %q is no database's number", redactURL(o.url), path)
		}
		if len(o.dbs) == 0 {
			o.dbs = []int{db}
		}
		u.Path = ""
		o.url = u.String()
	}
	for _, db := range o.dbs {
		if db < 0 {
			return fmt.Errorf("--db: %d is no database's number", db)
		}
	}
	slices.Sort(o.dbs)
	o.dbs = slices.Compact(o.dbs)
	return nil
}

// where is an opened store with what is known of how it is used.
type where struct {
	cfg      *config.Config
	gateway  config.Gateway
	name     string // without credentials
	upstream gateway.Upstream
	policy   *policy.Policy
	engine   *codec.Engine
	files    []*codec.Dict
	dbs      []int

	sealing, readOnly, everywhere bool // see whereOptions

	dicts storeDicts
	stop  context.CancelFunc // ends what runs in the background

	store  *storeredis.Store // of Redis
	layout string            // of a cluster, when it was opened
	nodes  *nodeDicts

	tuples *open.Tuples // of Tarantool
	group  *storetarantool.Group
	others []shardStore // the shards that it belongs with, where all are meant
	local  dict.Set
}

// open reads the configuration and connects.
func (o *whereOptions) open(ctx context.Context) (*where, error) {
	w := &where{stop: func() {}, sealing: o.sealing, readOnly: o.readOnly, everywhere: o.everywhere}
	if err := o.configure(w); err != nil {
		return nil, err
	}
	files, err := w.loadDictionaries(o.dictFiles)
	if err != nil {
		return nil, err
	}
	up, err := w.cfg.UpstreamOf(&w.gateway, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, withCode(exitConfig, err)
	}
	w.name = up.String()
	if open.IsSeveral(w.gateway.Upstream) {
		w.name = open.SeveralName(w.gateway.Upstream)
	}
	w.upstream, w.files, w.dbs = up, files, o.dbs
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

// connect opens the store at all nodes that it has now.
func (w *where) connect(ctx context.Context) (err error) {
	if w.gateway.Protocol == config.Tarantool {
		return w.connectTarantool(ctx)
	}
	servers, err := w.gateway.RedisServers()
	if err != nil {
		return withCode(exitConfig, err)
	}
	up, err := open.FirstServer(ctx, servers, w.upstream)
	if err != nil {
		return w.failure(err)
	}
	var dicts atomic.Pointer[nodeDicts]
	w.store, err = storeredis.Open(ctx, storeredis.OpenOptions{
		Client: open.ClientOptions(up), DBs: w.dbs,
		OnConnect: func(ctx context.Context, c *redis.Conn) error {
			if d := dicts.Load(); d != nil {
				return d.ensure(ctx, c)
			}
			return nil
		},
	})
	if err != nil {
		return w.failure(err)
	}
	if w.layout, err = w.store.Layout(ctx); err != nil {
		w.store.Close()
		return w.failure(err)
	}
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	if w.nodes, err = newNodeDicts(ctx, w.store, w.files); err != nil {
		w.close()
		return err
	}
	w.dicts = w.nodes
	dicts.Store(w.nodes)
	return nil
}

// moved reports whether the cluster's slots are with others than when it was opened, and
// connects to those.
func (w *where) moved(ctx context.Context) bool {
	if w.tuples != nil || !w.store.Cluster() {
		return false
	}
	layout, err := w.store.Layout(ctx)
	if err != nil || layout == w.layout {
		return false
	}
	w.close()
	return w.connect(ctx) == nil
}

func (w *where) close() {
	w.stop()
	if w.tuples != nil {
		w.tuples.Conn.Close()
		w.group.Close()
		return
	}
	w.store.Close()
}

// configure finds the gateway that stands for the store.
func (o *whereOptions) configure(w *where) error {
	var more []config.Gateway
	if o.configFile == "" {
		rules, err := serveOptions{rules: o.rules}.ruleList()
		if err != nil {
			return withCode(exitConfig, err)
		}
		more = []config.Gateway{config.RedisGateway("store", config.DefaultListen, o.url, rules)}
		if isTarantoolURL(o.url) {
			more = []config.Gateway{config.TarantoolGateway("store", config.DefaultListen, o.url, rules)}
			more[0].Shards = o.shards
		}
	}
	overrides := config.FromEnvironment(os.Getenv)
	if o.zstd != "" {
		overrides = append(overrides, config.Override{From: "--zstd", Key: "zstd", Value: o.zstd})
	}
	var err error
	if w.cfg, err = loadConfig(o.configFile, more, overrides); err != nil {
		return err
	}
	if w.gateway, err = o.choose(w.cfg.Gateways); err != nil {
		return withCode(exitConfig, err)
	}
	if o.url != "" {
		w.gateway.Upstream = o.url
	}
	if o.shards != nil {
		w.gateway.Shards = o.shards
	}
	w.engine, err = engineWith(w.cfg.Zstd)
	return err
}

func (o *whereOptions) choose(gateways []config.Gateway) (config.Gateway, error) {
	var names []string
	for _, g := range gateways {
		if g.Name == o.gateway || o.gateway == "" && len(gateways) == 1 {
			return g, nil
		}
		names = append(names, g.Name)
	}
	if o.gateway == "" {
		return config.Gateway{}, ui.WithHint(fmt.Errorf("%s has %d gateways", o.configFile, len(gateways)), "choose one with --gateway: %s", strings.Join(names, ", "))
	}
	err := fmt.Errorf("%s has no gateway %q", o.configFile, o.gateway)
	if near := ui.Nearest(o.gateway, names); near != "" {
		return config.Gateway{}, ui.WithHint(err, "did you mean %s?", near)
	}
	return config.Gateway{}, ui.WithHint(err, "it has %s", strings.Join(names, ", "))
}

// loadDictionaries reads all files and builds the policy, which needs their numbers.
func (w *where) loadDictionaries(more []string) ([]*codec.Dict, error) {
	named, err := w.cfg.LoadDictionaries()
	if err != nil {
		return nil, withCode(exitConfig, err)
	}
	if w.policy, err = w.gateway.Policy(config.Numbers(named)); err != nil {
		return nil, withCode(exitConfig, err)
	}
	var all []*codec.Dict
	for _, d := range named {
		all = append(all, d)
	}
	for _, file := range more {
		d, err := loadDict(file)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// failure words an error of the store, and gives it its exit code.
func (w *where) failure(err error) error {
	if w.tuples != nil {
		return tarantoolFailure(w.name, err)
	}
	if errors.Is(err, storeredis.ErrReplica) {
		return ui.WithHint(fmt.Errorf("%s: %w", w.name, err), "give the address of the primary")
	}
	if errors.Is(err, storeredis.ErrDenied) {
		return ui.WithHint(fmt.Errorf("%s: %w", w.name, err), "docs/PACK.md lists under Rights what the user in the URL needs; where values name dictionaries also +function|list")
	}
	return (&storeAccess{name: w.name}).failure(err)
}

// targets are what a run walks over.
func (w *where) targets() []pack.Target {
	if w.tuples != nil {
		targets := w.tuples.Targets()
		for _, s := range w.others {
			targets = append(targets, s.tuples.Targets()...)
		}
		return targets
	}
	return open.Targets(w.store)
}

// unavailable reports that trying again makes sense.
func (w *where) unavailable(err error) bool {
	if w.tuples != nil {
		return storetarantool.Unavailable(err)
	}
	return storeredis.Unavailable(err)
}

// memoryLimit is what the server calls its limit.
func (w *where) memoryLimit() string {
	if w.tuples != nil {
		return "memtx_memory"
	}
	return "maxmemory"
}

// sealer opens what was sealed with any limit.
func (w *where) sealer() *cinch.Sealer {
	return cinch.NewSealer(cinch.SealerOptions{Engine: w.engine, Dicts: w.dicts, MaxRaw: int(w.gateway.MaxSeal), MaxOpen: maxInspectBytes})
}

// nodeDicts are the dictionaries of all nodes: found in any, put into all.
type nodeDicts struct {
	local dict.Set
	nodes []*storeredis.Dicts

	mu        sync.Mutex
	published []uint32 // what values may be about to name
}

// newNodeDicts also keeps the dictionaries in the nodes until ctx ends.
func newNodeDicts(ctx context.Context, s *storeredis.Store, files []*codec.Dict) (*nodeDicts, error) {
	d := &nodeDicts{}
	for _, f := range files {
		if err := d.local.Add(f); err != nil {
			return nil, err
		}
	}
	for _, n := range s.Nodes() {
		one := storeredis.NewDicts(storeredis.DictsOptions{
			Client: n.Client(), Local: &d.local, Timeout: open.AnswerTimeout, AskAlways: true, Log: slog.New(slog.DiscardHandler),
		})
		d.nodes = append(d.nodes, one)
		go one.Run(ctx)
	}
	return d, nil
}

// Dictionary implements cinch.Dictionaries.
func (d *nodeDicts) Dictionary(number uint32) (*codec.Dict, error) {
	missing := error(cinch.ErrDictMissing)
	for _, n := range d.nodes {
		x, err := n.Dictionary(number)
		if err == nil {
			return x, nil
		}
		if storeredis.Unavailable(err) && !errors.Is(err, cinch.ErrDictMissing) || errors.Is(err, storeredis.ErrDenied) {
			missing = fmt.Errorf("%w: %w", pack.ErrNotAsked, err)
		} else if !errors.Is(err, cinch.ErrDictMissing) {
			missing = err
		}
	}
	return nil, missing
}

// publish puts dictionaries into every node, before any value names them, and from now on
// into whatever else is connected to: a node may be new, or restored from an old backup.
func (d *nodeDicts) publish(ctx context.Context, numbers []uint32) error {
	d.mu.Lock()
	d.published = append(d.published, numbers...)
	d.mu.Unlock()
	for _, number := range numbers {
		x, err := d.Dictionary(number)
		if err != nil {
			return fmt.Errorf("dictionary %08x: %w", number, err)
		}
		for _, n := range d.nodes {
			if err := n.Publish(ctx, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensure is for new connections.
func (d *nodeDicts) ensure(ctx context.Context, c *redis.Conn) error {
	d.mu.Lock()
	numbers := slices.Clone(d.published)
	d.mu.Unlock()
	return d.nodes[0].Ensure(ctx, c, numbers...)
}

// ready reports that every node holds the dictionary, and looks again before it says no.
func (d *nodeDicts) ready(number uint32) bool {
	for _, n := range d.nodes {
		if n.Ready(number) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), open.AnswerTimeout)
		err := n.Recheck(ctx)
		cancel()
		if err != nil || !n.Ready(number) {
			return false
		}
	}
	return true
}
