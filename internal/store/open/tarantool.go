package open

import (
	"context"
	"fmt"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/tarantool"
)

// TarantoolOptions returns the options of a connection for walking over a Tarantool server. The connection
// fails if a gateway answers.
func TarantoolOptions(up endpoint.Upstream) tarantool.Options {
	return tarantool.Options{
		Dial: up.Dial, User: up.User, Password: up.Password, Timeout: WalkTimeout,
		Gateway: func(address string, g store.Gateway) error { return g.Refusal(address) },
	}
}

// openTarantool opens the server, or the masters of all shards.
func openTarantool(ctx context.Context, rawURL string, o Options) (store.Store, error) {
	first, shards := SplitShards(rawURL)
	up, err := endpoint.ParseUpstream(first, config.TarantoolPort)
	if o.Upstream != nil {
		up, err = *o.Upstream, nil
	}
	if err != nil {
		return nil, badConfig(err)
	}
	w := tarantool.WalkOptions{
		Name: up.String(), Node: up.Address, Rules: o.Rules, ReadOnly: o.ReadOnly, Everywhere: o.Everywhere, Dicts: o.Dicts,
	}
	conn, err := tarantool.Connect(ctx, TarantoolOptions(up))
	if err != nil {
		return nil, tarantool.Explain(w.Name, err)
	}
	w.Close = conn.Close
	group, _ := o.Dicts.(*tarantool.ClusterDicts)
	if group != nil {
		w.Name = up.Address
	} else {
		if o.Shards != nil {
			shards = o.Shards
		}
		if group, err = newClusterDicts(conn, up, shards, o.Local); err != nil {
			conn.Close()
			return nil, badConfig(err)
		}
		w.Close = func() { conn.Close(); group.Close() }
	}
	s, err := tarantool.OpenWalk(ctx, conn, group, w)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newClusterDicts returns the dictionaries of a server and of the other shards: the named ones, or else those that
// the server reports.
func newClusterDicts(conn *tarantool.Conn, up endpoint.Upstream, named []string, local *dict.Set) (*tarantool.ClusterDicts, error) {
	shards := NewShards(up, conn, WalkTimeout)
	if err := shards.Configure(&config.Gateway{Protocol: config.Tarantool, Shards: named}); err != nil {
		return nil, err
	}
	return tarantool.NewClusterDicts(tarantool.NewDicts(conn, local), tarantool.ClusterDictsOptions{Find: shards.Find, Connect: shards.Connect}), nil
}

// ConnectTarantool connects to the server at the URL, which is up.
func ConnectTarantool(ctx context.Context, rawURL string) (c *tarantool.Conn, up endpoint.Upstream, err error) {
	if Kind(rawURL) != Tarantool {
		return nil, up, &store.HintedError{
			Err: fmt.Errorf("%q is not the URL of a Tarantool server", Redact(rawURL)), Class: store.ErrUsage,
			Help: "it begins with tarantool://, or tarantools:// for TLS: tarantool://admin:secret@host:3301",
		}
	}
	up, err = endpoint.ParseUpstream(rawURL, config.TarantoolPort)
	if err != nil {
		return nil, up, err
	}
	c, err = tarantool.Connect(ctx, TarantoolOptions(up))
	return c, up, tarantool.Explain(up.String(), err)
}

func openTarantoolAccess(ctx context.Context, rawURL string, local *dict.Set) (store.Access, error) {
	first, shards := SplitShards(rawURL)
	conn, up, err := ConnectTarantool(ctx, first)
	if err != nil {
		return nil, err
	}
	group, err := newClusterDicts(conn, up, shards, local)
	if err != nil {
		conn.Close()
		return nil, badConfig(err)
	}
	return tarantool.NewAccess(conn, group, up.String()), nil
}
