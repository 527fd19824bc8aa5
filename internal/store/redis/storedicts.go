package redis

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// StoreDicts holds the dictionaries of a Store: of a server, or of all primaries that a cluster had when it was
// opened. It finds dictionaries in any of them and puts new ones into all. It is for tools that an operator runs; a
// gateway has Dicts or ClusterDicts. It implements store.Dicts.
type StoreDicts struct {
	local  *dict.Set
	nodes  []dictNode
	layout func(context.Context) (string, error) // of a cluster, see CollectOptions; nil: standalone server

	mu        sync.Mutex
	published []uint32 // values may be about to name them
}

type dictNode struct {
	name  string
	dicts *Dicts
	scan  *goredis.Options // for separate connections to every database
}

var _ store.Dicts = (*StoreDicts)(nil)

// newStoreDicts returns the dictionaries of a store. Those found are added to local.
func newStoreDicts(s *Store, local *dict.Set) *StoreDicts {
	d := &StoreDicts{local: local}
	if s.Cluster() {
		d.layout = s.Layout
	}
	for _, n := range s.nodes {
		scan := s.base
		scan.Addr, scan.PoolSize, scan.OnConnect = n.addr, 1, nil
		d.nodes = append(d.nodes, dictNode{n.addr, newToolDicts(n.client, local), &scan})
	}
	return d
}

// newToolDicts returns a Dicts without a limit on lookups, and without a log, since tools show errors.
func newToolDicts(client *goredis.Client, local *dict.Set) *Dicts {
	return NewDicts(DictsOptions{Client: client, Local: local, AskAlways: true, Log: slog.New(slog.DiscardHandler)})
}

// Dictionary implements envelope.Dictionaries. If it stays unknown whether the dictionary exists, the error wraps
// store.ErrDictUnknown.
func (d *StoreDicts) Dictionary(number uint32) (*codec.Dict, error) {
	x, err := d.find(number)
	if err != nil && !errors.Is(err, envelope.ErrDictMissing) {
		err = markUnknown(err)
	}
	return x, err
}

func (d *StoreDicts) find(number uint32) (*codec.Dict, error) {
	missing := error(envelope.ErrDictMissing)
	for _, n := range d.nodes {
		x, err := n.dicts.Dictionary(number)
		if err == nil {
			return x, nil
		}
		if !errors.Is(err, envelope.ErrDictMissing) {
			missing = err
		}
	}
	return nil, missing
}

// Publish stores dictionaries in every node before any value names them. From then on every new connection
// stores them too, see Ensure: its node may be new, or restored from an old backup.
func (d *StoreDicts) Publish(ctx context.Context, dicts ...*codec.Dict) error {
	for _, x := range dicts {
		if err := d.local.Add(x); err != nil {
			return err
		}
		d.mu.Lock()
		d.published = append(d.published, x.Number())
		d.mu.Unlock()
		for _, n := range d.nodes {
			if err := n.dicts.Publish(ctx, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// Ensure is called for new connections, see Dicts.Ensure.
func (d *StoreDicts) Ensure(ctx context.Context, c *goredis.Conn, numbers ...uint32) error {
	d.mu.Lock()
	numbers = append(slices.Clone(d.published), numbers...)
	d.mu.Unlock()
	return d.nodes[0].dicts.Ensure(ctx, c, numbers...)
}

// DictCost implements store.Dicts.
func (d *StoreDicts) DictCost(x *codec.Dict) float64 { return DictCost(x) }

// Ready implements store.Dicts.
func (d *StoreDicts) Ready(number uint32) bool {
	return !slices.ContainsFunc(d.nodes, func(n dictNode) bool { return !n.dicts.Ready(number) })
}

// Retired implements store.Dicts.
func (d *StoreDicts) Retired(number uint32) bool {
	return slices.ContainsFunc(d.nodes, func(n dictNode) bool { return n.dicts.Retired(number) })
}

// Recheck implements store.Dicts.
func (d *StoreDicts) Recheck(ctx context.Context) error {
	var errs []error
	for _, n := range d.nodes {
		errs = append(errs, n.dicts.Recheck(ctx))
	}
	return errors.Join(errs...)
}

// Run implements store.Dicts.
func (d *StoreDicts) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, n := range d.nodes {
		all.Go(func() { panics.KeepRunning(ctx, nil, nil, n.dicts.Run) })
	}
	all.Wait()
}

// Record implements store.Dicts.
func (d *StoreDicts) Record(ctx context.Context, name string) (text string, version uint64, err error) {
	_, text, version, err = d.record(ctx, name)
	return text, version, err
}

// record finds the node that has a record. Gateways keep it in the first node, see Store.primaries; if none
// has it, record returns that one.
func (d *StoreDicts) record(ctx context.Context, name string) (at *Dicts, text string, version uint64, err error) {
	for _, n := range d.nodes {
		if text, version, err = n.dicts.Record(ctx, name); err != nil || text != "" {
			return n.dicts, text, version, err
		}
	}
	return d.nodes[0].dicts, "", 0, nil
}

// ReplaceRecord implements store.Dicts.
func (d *StoreDicts) ReplaceRecord(ctx context.Context, name string, version uint64, text string) (next uint64, err error) {
	at, _, _, err := d.record(ctx, name)
	if err != nil {
		return 0, err
	}
	return at.ReplaceRecord(ctx, name, version, text)
}

func (d *StoreDicts) dicts() (all []*Dicts) {
	for _, n := range d.nodes {
		all = append(all, n.dicts)
	}
	return all
}
