package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/admin"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/pack"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store/open"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
)

// gatewayPacker packs the upstream of one gateway in the background, while its
// configuration wants that.
type gatewayPacker struct {
	*pack.Background
	process *process
	running *running
	engine  *codec.Engine // its own: clients don't wait for its turns
	holder  string        // of the lease
	dicts   backgroundDicts
	ctx     context.Context // of the gateway's own work in the background

	stop  chan struct{} // closed: finish
	ended chan struct{} // closed when it has
}

// errCluster: dictionaries would have to be in every node, and the gateway keeps them in one.
var errCluster = errors.New("the upstream is one node of a cluster: write redis+cluster://…, or run 'cinch pack'")

// backgroundDicts are the dictionaries that a gateway keeps in its store.
type backgroundDicts interface {
	cinch.Dictionaries
	Ready(number uint32) bool
	Recheck(ctx context.Context) error
}

// newPackers makes one for every gateway to a store: a reload may want it at any time.
func (p *process) newPackers() error {
	for _, r := range p.gateways {
		if r.keeper == nil && r.tarantool == nil {
			continue
		}
		engine, err := engineWith(p.started.Zstd)
		if err != nil {
			return err
		}
		k := &gatewayPacker{
			process: p, running: r, engine: engine, holder: gatewayID(r.name),
			stop: make(chan struct{}), ended: make(chan struct{}),
		}
		o := pack.BackgroundOptions{Current: k.job, Log: p.log.With("gateway", r.name)}
		if r.tarantool != nil {
			k.dicts, k.ctx = r.tarantool.dicts, r.tarantool.ctx
			o.Open, o.Unavailable = k.openTuples, storetarantool.Unavailable
		} else {
			k.dicts, k.ctx = r.keeper.dicts, r.keeper.ctx
			o.Open, o.Unavailable = k.open, storeredis.Unavailable
		}
		k.Background = pack.NewBackground(o)
		p.packers = append(p.packers, k)
	}
	return nil
}

func (p *process) startPacking() {
	for _, k := range p.packers {
		go func() {
			defer close(k.ended)
			k.Run(k.ctx, k.stop)
		}()
	}
}

// stopPacking lets pages under way finish, until ctx ends.
func (p *process) stopPacking(ctx context.Context) {
	for _, k := range p.packers {
		close(k.stop)
	}
	for _, k := range p.packers {
		select {
		case <-k.ended:
		case <-ctx.Done():
			if !k.packing().Background {
				continue // it had nothing to do
			}
			p.log.Warn("packing in the background was cut off", "gateway", k.running.name)
		}
	}
}

// packing is what the configuration says of it now.
func (k *gatewayPacker) packing() config.Pack {
	cfg := k.process.current.Load().cfg
	if g := cfg.Gateway(k.running.name); g != nil {
		return cfg.Packing(g)
	}
	return config.Pack{}
}

func (k *gatewayPacker) maxSeal() int {
	return int(k.process.started.Gateway(k.running.name).MaxSeal) // a reload doesn't change it
}

// job is what there is to do now.
func (k *gatewayPacker) job() pack.Job {
	c := k.packing()
	if !c.Background {
		return pack.Job{}
	}
	cfg := k.process.current.Load().cfg
	return pack.Job{
		Formats: k.running.tarantool != nil,
		Policy:  k.running.auto.Policy(), Exclude: strings.Join(cfg.Gateway(k.running.name).Exclude, "\n"),
		DryRun: c.Mode == config.PackEstimate, Every: time.Duration(c.Every), Parallel: c.Parallel, MaxBytes: k.maxSeal(),
		KeysPerSecond: float64(c.KeysPerSecond), BytesPerSecond: float64(c.BytesPerSecond), MaxLatency: time.Duration(c.MaxLatency),
		IdleBelow: time.Duration(c.SkipIdleBelow), FreqAbove: c.SkipFreqAbove, StateFile: c.State,
	}
}

// open connects once more, past the gateway's own few connections.
func (k *gatewayPacker) open(ctx context.Context, rules *policy.Policy) (pack.Session, error) {
	if err := k.prepared(rules); err != nil {
		return pack.Session{}, err
	}
	up := k.running.upstream
	up.Stats = nil // not clients' traffic
	if len(k.running.others) > 0 && k.running.dial == nil {
		var err error
		if up, err = open.FirstAnswering(ctx, append([]gateway.Upstream{up}, k.running.others...)); err != nil {
			return pack.Session{}, err
		}
	}
	client := open.ClientOptions(up)
	if dial := k.running.dial; dial != nil {
		client.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	}
	s, err := storeredis.Open(ctx, storeredis.OpenOptions{
		Client: client,
		OnConnect: func(ctx context.Context, c *goredis.Conn) error { // to a server that has taken over, perhaps
			return k.running.keeper.dicts.Ensure(ctx, c, rules.Dictionaries()...)
		},
	})
	if err != nil {
		return pack.Session{}, err
	}
	if _, whole := k.running.keeper.dicts.(*storeredis.ClusterDicts); s.Cluster() && !whole {
		s.Close()
		return pack.Session{}, errCluster
	}
	return pack.Session{
		Name:    up.Address,
		Targets: open.Targets(s),
		Lease:   func(name string) pack.Lease { return s.Lease(name, k.holder) },
		Seal: func(rules *policy.Policy) *pack.Seal {
			task := k.seal(rules)
			task.Indexed = s.Indexed
			return task
		},
		Close: s.Close,
	}, nil
}

// prepared returns an error as long as values would be sealed without the dictionaries that
// they are to have.
func (k *gatewayPacker) prepared(rules *policy.Policy) error {
	if auto := k.running.auto; !auto.Looked() || auto.Policy() != rules {
		return fmt.Errorf("%w: which dictionaries rules with dictionary: auto have is not known yet", pack.ErrNotYet)
	}
	for _, number := range rules.Dictionaries() {
		if !k.ready(number) {
			return fmt.Errorf("%w: dictionary %08x is not in the server", pack.ErrNotYet, number)
		}
		if _, err := k.dicts.Dictionary(number); err != nil {
			return fmt.Errorf("%w: dictionary %08x: %w", pack.ErrNotYet, number, err)
		}
	}
	return nil
}

func (k *gatewayPacker) seal(rules *policy.Policy) *pack.Seal {
	return &pack.Seal{Policy: rules, Ready: k.ready, Sealer: cinch.NewSealer(cinch.SealerOptions{
		Engine: k.engine, Dicts: k.dicts, MaxRaw: k.maxSeal(), MaxOpen: k.maxSeal(),
	})}
}

// ready reports that the server holds a dictionary, and looks again before it says no.
func (k *gatewayPacker) ready(number uint32) bool {
	if k.dicts.Ready(number) {
		return true
	}
	ctx, cancel := context.WithTimeout(k.ctx, open.AnswerTimeout)
	defer cancel()
	return k.dicts.Recheck(ctx) == nil && k.dicts.Ready(number)
}

func (p *process) packMetrics() *pack.Metrics {
	m := &pack.Metrics{}
	for _, k := range p.packers {
		m.Packers = append(m.Packers, pack.NamedBackground{Gateway: k.running.name, Background: k.Background})
	}
	return m
}

// describePacking is nil for gateways that were not told to.
func (p *process) describePacking(r *running) *admin.Packing {
	for _, k := range p.packers {
		if k.running != r || !k.packing().Background {
			continue
		}
		s := k.Status()
		d := &admin.Packing{
			Wanted: s.Wanted, Running: s.Running, Estimate: s.DryRun, Done: s.Done, Duty: s.Duty, Trouble: s.Trouble,
			Passes: s.Passes[pack.PassDone], Keys: s.Report.Keys, Values: s.Report.Replaced,
			BeforeBytes: s.Report.CostBefore, AfterBytes: s.Report.CostAfter, Problems: s.Report.Problems,
		}
		if !s.Last.IsZero() {
			d.LastPass = &s.Last
		}
		return d
	}
	return nil
}

// What packing in the background may hold, beside values: a page as it was read, what waits
// to be replaced, and their replies, for each page in work.
const packPageBytes = 16 << 20

// packingBytes is in bytes.
func (p *process) packingBytes() (n int64) {
	for _, k := range p.packers {
		if c := k.packing(); c.Background {
			n += int64(c.Parallel) * (packPageBytes + 3*int64(k.maxSeal()))
		}
	}
	return n
}
