package open

import (
	"context"
	"fmt"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/pack"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/tarantool"
)

// Tuples are a Tarantool server that is walked over.
type Tuples struct {
	*tarantool.Store
	Conn *tarantool.Conn
}

// TarantoolOptions are those of a connection that walks over a Tarantool server.
func TarantoolOptions(up gateway.Upstream) tarantool.Options {
	return tarantool.Options{Dial: up.Dial, User: up.User, Password: up.Password, Timeout: WalkTimeout}
}

// SealsField reports that some rule seals a field, and nothing in the server computes on it.
func SealsField(rules *policy.Policy) func(*tarantool.Space, tarantool.Field) bool {
	return func(s *tarantool.Space, f tarantool.Field) bool {
		for _, r := range s.Rules(rules, f) {
			if !r.Raw() {
				return s.Touched(f.Number, TrustsField(rules)(s, f)) == ""
			}
		}
		return false
	}
}

// TrustsField reports that a rule vouches for a field.
func TrustsField(rules *policy.Policy) func(*tarantool.Space, tarantool.Field) bool {
	return func(s *tarantool.Space, f tarantool.Field) bool {
		return tarantool.Trusted(s.Rules(rules, f))
	}
}

// Targets are what a walk goes through.
func (t *Tuples) Targets() []pack.Target {
	var targets []pack.Target
	for _, s := range t.Spaces() {
		targets = append(targets, pack.Target{Node: t, Space: s})
	}
	return targets
}

// Rules finds the rule for a value by its space's and field's names.
func (t *Tuples) Rules(p *policy.Policy) func(string, *store.Value, int) *policy.Rule {
	type place struct{ space, field string }
	covering := make(map[place][]*policy.Rule)
	for _, s := range t.Spaces() {
		for _, f := range s.Space().Fields {
			covering[place{s.DB(), s.Space().FieldName(f.Number)}] = s.Space().Rules(p, f)
		}
	}
	return func(space string, v *store.Value, size int) *policy.Rule {
		return tarantool.First(covering[place{space, string(v.Field)}], size)
	}
}

// openTarantool opens the server, or the masters of all shards.
func openTarantool(ctx context.Context, rawURL string, o Options) (store.Store, error) {
	first, shards := SplitShards(rawURL)
	up, err := gateway.ParseUpstream(first, config.TarantoolPort)
	if o.Upstream != nil {
		up, err = *o.Upstream, nil
	}
	if err != nil {
		return nil, badConfig(err)
	}
	up.Stats = nil // not clients' traffic
	w := tarantool.WalkOptions{
		Name: up.String(), Node: up.Address, Rules: o.Rules, ReadOnly: o.ReadOnly, Everywhere: o.Everywhere, Dicts: o.Dicts,
	}
	conn, err := tarantool.Connect(ctx, TarantoolOptions(up))
	if err != nil {
		return nil, tarantool.Explain(w.Name, err)
	}
	w.Close = conn.Close
	group, _ := o.Dicts.(*tarantool.Group)
	if group != nil {
		w.Name = up.Address
	} else {
		if o.Shards != nil {
			shards = o.Shards
		}
		if group, err = newGroup(conn, up, shards, o.Local); err != nil {
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

// newGroup is the dictionaries of a server and of the shards that it belongs with: those that are named,
// or else the server is asked.
func newGroup(conn *tarantool.Conn, up gateway.Upstream, named []string, local *dict.Set) (*tarantool.Group, error) {
	shards := NewShards(up, conn, WalkTimeout)
	if err := shards.Name(&config.Gateway{Protocol: config.Tarantool, Shards: named}); err != nil {
		return nil, err
	}
	return tarantool.NewGroup(tarantool.NewDicts(conn, local), tarantool.GroupOptions{Find: shards.Find, Connect: shards.Connect}), nil
}

// ConnectTarantool connects to the server at the URL. name is without credentials.
func ConnectTarantool(ctx context.Context, rawURL string) (c *tarantool.Conn, name string, err error) {
	if Kind(rawURL) != Tarantool {
		return nil, "", &store.Explained{
			Err: fmt.Errorf("%q is no URL of a Tarantool server", Redact(rawURL)), Class: store.ErrUsage,
			Help: "it begins with tarantool://, or tarantools:// for TLS: tarantool://admin:secret@host:3301",
		}
	}
	up, err := gateway.ParseUpstream(rawURL, config.TarantoolPort)
	if err != nil {
		return nil, "", err
	}
	c, err = tarantool.Connect(ctx, TarantoolOptions(up))
	return c, up.String(), tarantool.Explain(up.String(), err)
}

func lookTarantool(ctx context.Context, rawURL string) (store.Access, error) {
	first, shards := SplitShards(rawURL)
	conn, name, err := ConnectTarantool(ctx, first)
	if err != nil {
		return nil, err
	}
	up, err := gateway.ParseUpstream(first, config.TarantoolPort)
	if err != nil {
		return nil, err
	}
	group, err := newGroup(conn, up, shards, nil)
	if err != nil {
		conn.Close()
		return nil, badConfig(err)
	}
	return tarantool.NewAccess(conn, group, name), nil
}
