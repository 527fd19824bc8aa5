package redis

import (
	"context"
	"errors"
	"fmt"
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

// Nodes holds the dictionaries of a server, or of all primaries that a cluster had when it was opened. It
// finds dictionaries in any of them and puts new ones into all. It is for tools that an operator runs; a
// gateway has Dicts or ClusterDicts. It implements store.Dicts.
type Nodes struct {
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

var _ store.Dicts = (*Nodes)(nil)

// newNodes returns the dictionaries of a store. Those found are added to local.
func newNodes(s *Store, local *dict.Set) *Nodes {
	d := &Nodes{local: local}
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

// newToolDicts returns a Dicts without a limit on questions, and without a log, since tools show errors.
func newToolDicts(client *goredis.Client, local *dict.Set) *Dicts {
	return NewDicts(DictsOptions{Client: client, Local: local, AskAlways: true, Log: slog.New(slog.DiscardHandler)})
}

// Dictionary implements envelope.Dictionaries. An error that leaves open whether there is one wraps
// store.ErrDictUnknown.
func (d *Nodes) Dictionary(number uint32) (*codec.Dict, error) {
	x, err := d.find(number)
	if err != nil && !errors.Is(err, envelope.ErrDictMissing) {
		err = markUnknown(err)
	}
	return x, err
}

func (d *Nodes) find(number uint32) (*codec.Dict, error) {
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
func (d *Nodes) Publish(ctx context.Context, dicts ...*codec.Dict) error {
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
func (d *Nodes) Ensure(ctx context.Context, c *goredis.Conn, numbers ...uint32) error {
	d.mu.Lock()
	numbers = append(slices.Clone(d.published), numbers...)
	d.mu.Unlock()
	return d.nodes[0].dicts.Ensure(ctx, c, numbers...)
}

// Ready implements store.Dicts.
func (d *Nodes) Ready(number uint32) bool {
	return !slices.ContainsFunc(d.nodes, func(n dictNode) bool { return !n.dicts.Ready(number) })
}

// Retired implements store.Dicts.
func (d *Nodes) Retired(number uint32) bool {
	return slices.ContainsFunc(d.nodes, func(n dictNode) bool { return n.dicts.Retired(number) })
}

// Recheck implements store.Dicts.
func (d *Nodes) Recheck(ctx context.Context) error {
	var errs []error
	for _, n := range d.nodes {
		errs = append(errs, n.dicts.Recheck(ctx))
	}
	return errors.Join(errs...)
}

// Run implements store.Dicts.
func (d *Nodes) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, n := range d.nodes {
		all.Go(func() { panics.KeepRunning(ctx, nil, nil, n.dicts.Run) })
	}
	all.Wait()
}

// Record implements store.Dicts.
func (d *Nodes) Record(ctx context.Context, name string) (text string, version uint64, err error) {
	_, text, version, err = d.record(ctx, name)
	return text, version, err
}

// record finds the node that has a record. Gateways keep it in the first node, see Store.primaries; if none
// has it, record returns that one.
func (d *Nodes) record(ctx context.Context, name string) (at *Dicts, text string, version uint64, err error) {
	for _, n := range d.nodes {
		if text, version, err = n.dicts.Record(ctx, name); err != nil || text != "" {
			return n.dicts, text, version, err
		}
	}
	return d.nodes[0].dicts, "", 0, nil
}

// ReplaceRecord implements store.Dicts.
func (d *Nodes) ReplaceRecord(ctx context.Context, name string, version uint64, text string) (next uint64, err error) {
	at, _, _, err := d.record(ctx, name)
	if err != nil {
		return 0, err
	}
	return at.ReplaceRecord(ctx, name, version, text)
}

func (d *Nodes) dicts() (all []*Dicts) {
	for _, n := range d.nodes {
		all = append(all, n.dicts)
	}
	return all
}

// dictAdmin gives an administrator access to the dictionaries. It implements store.DictAdmin.
type dictAdmin struct {
	name    string
	nodes   func(context.Context) (*Nodes, error) // called when the nodes are first needed
	first   *Dicts                                // of the named server, searched first; or nil
	explain func(error) error
}

var _ store.DictAdmin = (*dictAdmin)(nil)

// Name implements store.DictAdmin.
func (s *dictAdmin) Name() string { return s.name }

// each calls do for every node and explains errors.
func (s *dictAdmin) each(ctx context.Context, do func(i int, n dictNode) error) error {
	all, err := s.nodes(ctx)
	if err != nil {
		return s.explain(err)
	}
	for i, n := range all.nodes {
		if err := do(i, n); err != nil {
			return s.explain(err)
		}
	}
	return nil
}

// Dictionary finds a dictionary in any node.
func (s *dictAdmin) Dictionary(number uint32) (*codec.Dict, error) {
	x, err := s.find(number)
	if err != nil && !errors.Is(err, envelope.ErrDictMissing) {
		err = s.explain(err)
	}
	return x, err
}

func (s *dictAdmin) find(number uint32) (*codec.Dict, error) {
	first := error(envelope.ErrDictMissing)
	if s.first != nil {
		x, err := s.first.Dictionary(number)
		if err == nil {
			return x, nil
		}
		first = err
	}
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimeout)
	defer cancel()
	all, err := s.nodes(ctx)
	if err != nil {
		return nil, first // the answer of the one node that could be asked
	}
	return all.find(number)
}

func (s *dictAdmin) List(ctx context.Context) ([]store.DictInfo, error) {
	var lists []store.NodeDicts
	err := s.each(ctx, func(_ int, n dictNode) error {
		infos, err := n.dicts.List(ctx)
		var list []store.DictInfo
		for _, i := range infos {
			list = append(list, i.dictInfo())
		}
		lists = append(lists, store.NodeDicts{Name: n.name, List: list})
		return err
	})
	if err != nil {
		return nil, err
	}
	return store.MergeDicts("nodes", lists), nil
}

func (i Info) dictInfo() store.DictInfo {
	d := store.DictInfo{Number: i.Number, Bytes: i.Bytes, Place: string(i.Place), State: i.State, Problem: i.Problem}
	if i.Hash != [32]byte{} {
		d.SHA256 = fmt.Sprintf("%x", i.Hash)
	}
	return d
}

func (s *dictAdmin) Records(ctx context.Context) (all []store.Record, err error) {
	err = s.each(ctx, func(i int, n dictNode) error {
		texts, err := n.dicts.Records(ctx)
		for name, text := range texts {
			all = append(all, store.Record{Name: name, Text: text, Node: i})
		}
		return err
	})
	return all, err
}

func (s *dictAdmin) DeleteRecord(ctx context.Context, r store.Record, still func(string) bool) (deleted bool, err error) {
	err = s.each(ctx, func(i int, n dictNode) error {
		if i != r.Node {
			return nil
		}
		text, version, err := n.dicts.Record(ctx, r.Name)
		if err == nil && still(text) {
			deleted, err = n.dicts.DeleteRecord(ctx, r.Name, version)
		}
		return err
	})
	return deleted, err
}

// collectOptions returns the options for Collect.
func (s *dictAdmin) collectOptions(ctx context.Context) (CollectOptions, error) {
	all, err := s.nodes(ctx)
	if err != nil {
		return CollectOptions{}, s.explain(err)
	}
	o := CollectOptions{Layout: all.layout}
	for _, n := range all.nodes {
		o.Nodes = append(o.Nodes, CollectNode{Dicts: n.dicts, Scan: n.scan})
	}
	return o, nil
}

func (s *dictAdmin) Count(ctx context.Context) (map[uint32]int, error) {
	o, err := s.collectOptions(ctx)
	if err != nil {
		return nil, err
	}
	counts, err := o.Count(ctx)
	return counts.ByDict, s.explain(err)
}

func (s *dictAdmin) Collect(ctx context.Context, how store.CollectOptions, numbers []uint32) ([]store.Collected, error) {
	o, err := s.collectOptions(ctx)
	if err != nil {
		return nil, err
	}
	o.Wait, o.Tell = how.Wait, how.Tell
	all, err := Collect(ctx, o, numbers)
	return all, s.explain(err)
}

func (s *dictAdmin) Restore(ctx context.Context, d *codec.Dict) error {
	return s.each(ctx, func(_ int, n dictNode) error { return n.dicts.Restore(ctx, d) })
}

// Forget erases an archived dictionary from all nodes that have it. It does not explain the nodes' errors,
// since they are not the servers' fault.
func (s *dictAdmin) Forget(ctx context.Context, number uint32) error {
	all, err := s.nodes(ctx)
	if err != nil {
		return s.explain(err)
	}
	failure := error(ErrNotStored)
	for _, n := range all.nodes {
		err := n.dicts.Forget(ctx, number)
		switch {
		case err == nil && errors.Is(failure, ErrNotStored):
			failure = nil
		case err != nil && !errors.Is(err, ErrNotStored):
			return err
		}
	}
	if failure != nil {
		return fmt.Errorf("forget dictionary %08x: %w", number, failure)
	}
	return nil
}

func (s *dictAdmin) Spread(ctx context.Context, tell func(uint32, string)) (nothing string, err error) {
	all, err := s.nodes(ctx)
	if err != nil {
		return "", s.explain(err)
	}
	held, err := DictStates(ctx, all.dicts())
	if err != nil {
		return "", s.explain(err)
	}
	copied, err := Spread(ctx, all.dicts(), held, all.find, func(x *codec.Dict, node int) { tell(x.Number(), all.nodes[node].name) })
	switch {
	case err != nil:
		return "", s.explain(err)
	case copied == 0 && len(held) == 1:
		return "there is one primary", nil
	case copied == 0:
		return fmt.Sprintf("each of %d primaries holds the same dictionaries", len(held)), nil
	}
	return "", nil
}

// Missing warns of readers that would not find a dictionary: those that ask only the value's own node, and
// those of another cluster to which that node is restored.
func (s *dictAdmin) Missing(ctx context.Context, numbers []uint32) (lacks []store.MissingDict, err error) {
	all, err := s.nodes(ctx)
	if err != nil || all.layout == nil || len(numbers) == 0 {
		return nil, s.explain(err)
	}
	held, err := DictStates(ctx, all.dicts())
	if err != nil {
		return nil, s.explain(err)
	}
	for _, number := range numbers {
		for i, of := range held {
			if state := of[number]; state == "" || state == forgotten {
				lacks = append(lacks, store.MissingDict{Node: all.nodes[i].name, Number: number})
			}
		}
	}
	return lacks, nil
}
