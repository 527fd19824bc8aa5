package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/tarantool"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store/open"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
)

// tarantoolGateways are the gateways that --tarantool or its variable asks for.
func (o serveOptions) tarantoolGateways(getenv func(string) string) ([]config.Gateway, error) {
	rules, err := o.ruleList()
	if err != nil {
		return nil, withCode(exitConfig, err)
	}
	targets, err := readGatewayFlags("tarantool", o.tarantoolPairs(getenv), "LISTEN=URL, as in 127.0.0.1:3302=tarantool://host:3301")
	var list []config.Gateway
	for _, t := range targets {
		list = append(list, config.TarantoolGateway(t.name, t.listen, t.upstream, rules))
	}
	return list, err
}

// tarantoolKeeper is a gateway's own access to its Tarantool server, where it reads the schema
// and keeps the dictionaries that values name.
type tarantoolKeeper struct {
	conn   *storetarantool.Conn
	local  dict.Set
	shards *open.Shards
	dicts  *storetarantool.Group
	log    *slog.Logger

	ctx    context.Context // ends the work in the background
	cancel context.CancelFunc
	giveUp context.CancelFunc // ends what was begun for the last policy
}

func newTarantoolKeeper(up gateway.Upstream, log *slog.Logger) *tarantoolKeeper {
	up.Stats = nil // not clients' traffic
	k := &tarantoolKeeper{log: log, giveUp: func() {}}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.conn = storetarantool.NewConn(storetarantool.Options{
		Dial: func(ctx context.Context) (net.Conn, error) { return up.Dial(ctx) },
		User: up.User, Password: up.Password,
		Timeout: open.AnswerTimeout,
	})
	k.shards = open.NewShards(up, k.conn, open.AnswerTimeout)
	own := storetarantool.NewDicts(k.conn, &k.local)
	own.LimitLookups()
	k.dicts = storetarantool.NewGroup(own, storetarantool.GroupOptions{
		Find: k.shards.Find, Connect: k.shards.Connect, Log: log,
	})
	return k
}

// schema reads the server's schema.
func (k *tarantoolKeeper) schema(ctx context.Context) (*storetarantool.Schema, error) {
	return storetarantool.Load(ctx, k.conn)
}

// look reads a tuple.
func (k *tarantoolKeeper) look(ctx context.Context, space, index uint32, key []byte) ([]byte, error) {
	return storetarantool.Fetch(ctx, k.conn, space, index, key)
}

// adopt makes the dictionaries of a policy usable: files go into the server, and the others are
// fetched from it. Until then values are sealed without. It does not block, and is not for
// concurrent use.
func (k *tarantoolKeeper) adopt(files []*codec.Dict, others []uint32) {
	k.giveUp()
	ctx, cancel := context.WithCancel(k.ctx)
	k.giveUp = cancel
	if len(files)+len(others) > 0 {
		go k.keepAdopting(ctx, files, others)
	}
}

func (k *tarantoolKeeper) keepAdopting(ctx context.Context, files []*codec.Dict, others []uint32) {
	told := ""
	for wait := firstRefetch; ; wait = min(2*wait, lastRefetch) {
		err := k.tryAdopt(ctx, files, others)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			k.log.Info("the dictionaries that rules name are in the server", "dictionaries", len(files)+len(others))
			return
		}
		if err.Error() != told {
			told = err.Error()
			k.log.Warn("a dictionary that rules name can't be used, so values are sealed without it", "err", err, "hint", "'cinch tarantool init' installs what keeps dictionaries")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (k *tarantoolKeeper) tryAdopt(ctx context.Context, files []*codec.Dict, others []uint32) error {
	if err := k.dicts.Publish(ctx, files...); err != nil {
		return err
	}
	for _, n := range others {
		if _, err := k.dicts.Dictionary(n); err != nil {
			return err
		}
	}
	return nil
}

// reshard takes the shards of another configuration.
func (k *tarantoolKeeper) reshard(g *config.Gateway) {
	if err := k.shards.Name(g); err != nil {
		k.log.Error("the shards can't be read, keeping the old ones", "err", err)
	}
}

func (k *tarantoolKeeper) close() {
	k.giveUp()
	k.cancel()
	k.conn.Close()
	k.dicts.Close()
}

// dictStore is where the gateway keeps the dictionaries that its values name.
func (r *running) dictStore() autodict.Store {
	if r.tarantool != nil {
		return r.tarantool.dicts
	}
	return r.keeper.dicts
}

// localDicts are the dictionaries that a gateway to a store holds.
func (r *running) localDicts() *dict.Set {
	if r.tarantool != nil {
		return &r.tarantool.local
	}
	return &r.keeper.local
}

// adopt makes the dictionaries of a policy usable.
func (r *running) adopt(files []*codec.Dict, others []uint32) {
	if r.tarantool != nil {
		r.tarantool.adopt(files, others)
		return
	}
	r.keeper.adopt(files, others)
}

var sqlModes = map[string]tarantool.SQLMode{
	config.SQLProjection: tarantool.SQLProjection,
	config.SQLPass:       tarantool.SQLPass,
}

// addTarantool makes r a gateway to a Tarantool server.
func (p *process) addTarantool(l *loaded, g *config.Gateway, r *running, tls *tls.Config, log *slog.Logger) error {
	k := newTarantoolKeeper(r.upstream, log)
	if err := k.shards.Name(g); err != nil {
		return err
	}
	var made *tarantool.Gateway
	r.tarantool = k
	r.auto = p.newAutodict(r, func(rules *policy.Policy) { made.SetPolicy(rules) }, log)
	made = tarantool.NewGateway(tarantool.Config{
		Name:     g.Name,
		Upstream: r.upstream,
		TLS:      tls,
		Engine:   p.engine,
		Schema:   k.schema,
		Look:     k.look,
		Dicts:    k.dicts,
		Sampler:  r.auto,
		MaxSeal:  int(g.MaxSeal),
		MaxOpen:  int(*g.MaxOpen),
		MaxConns: g.MaxConnections,
		SQL:      sqlModes[g.SQL],
		Requests: p.requests,
		Replies:  p.replies,
		Stats:    r.stats,
		Log:      log,
	})
	r.gateway = made
	r.auto.SetRules(l.rules(g.Name))
	return nil
}
