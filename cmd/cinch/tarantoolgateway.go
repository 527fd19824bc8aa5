package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/tarantool"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/internal/ui"
)

// tarantoolGateways are the gateways that --tarantool or its variable asks for.
func (o serveOptions) tarantoolGateways(getenv func(string) string) ([]config.Gateway, error) {
	rules, err := o.ruleList()
	if err != nil {
		return nil, withCode(exitConfig, err)
	}
	var list []config.Gateway
	for i, target := range o.tarantoolTargets(getenv) {
		listen, upstream, ok := strings.Cut(target, "=")
		if !ok {
			err := errors.New("--tarantool: there is no = in it") // not shown: it may hold a password
			return nil, withCode(exitConfig, ui.WithHint(err, "write LISTEN=URL, as in 127.0.0.1:3302=tarantool://host:3301"))
		}
		name := "tarantool"
		if i > 0 {
			name = fmt.Sprintf("tarantool-%d", i+1)
		}
		list = append(list, config.TarantoolGateway(name, listen, upstream, rules))
	}
	return list, nil
}

// tarantoolKeeper is a gateway's own access to its Tarantool server, where it reads the
// schema. Its connection is made when it is first used.
type tarantoolKeeper struct {
	gateway *tarantool.Gateway
	options storetarantool.Options

	mu   sync.Mutex
	conn *storetarantool.Conn
}

func newTarantoolKeeper(up gateway.Upstream) *tarantoolKeeper {
	up.Stats = nil // not clients' traffic
	return &tarantoolKeeper{options: storetarantool.Options{
		Dial: func(ctx context.Context) (net.Conn, error) { return up.Dial(ctx) },
		User: up.User, Password: up.Password,
		Timeout: storeTimeout,
	}}
}

// schema reads the server's schema.
func (k *tarantoolKeeper) schema(ctx context.Context) (*storetarantool.Schema, error) {
	c, err := k.connection(ctx)
	if err != nil {
		return nil, err
	}
	return storetarantool.Load(ctx, c)
}

func (k *tarantoolKeeper) connection(ctx context.Context) (*storetarantool.Conn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != nil {
		return k.conn, nil
	}
	c, err := storetarantool.Connect(ctx, k.options)
	if err != nil {
		return nil, err
	}
	k.conn = c
	return c, nil
}

func (k *tarantoolKeeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != nil {
		k.conn.Close()
	}
}

var sqlModes = map[string]tarantool.SQLMode{
	config.SQLProjection: tarantool.SQLProjection,
	config.SQLPass:       tarantool.SQLPass,
}

// addTarantool makes r a gateway to a Tarantool server.
func (p *process) addTarantool(l *loaded, g *config.Gateway, r *running, tls *tls.Config, log *slog.Logger) {
	k := newTarantoolKeeper(r.upstream)
	k.gateway = tarantool.NewGateway(tarantool.Config{
		Name:     g.Name,
		Upstream: r.upstream,
		TLS:      tls,
		Policy:   l.policies[g.Name],
		Engine:   p.engine,
		Schema:   k.schema,
		MaxSeal:  int(g.MaxSeal),
		MaxOpen:  int(*g.MaxOpen),
		MaxConns: g.MaxConnections,
		SQL:      sqlModes[g.SQL],
		Requests: p.requests,
		Replies:  p.replies,
		Stats:    r.stats,
		Log:      log,
	})
	r.gateway, r.tarantool = k.gateway, k
}
