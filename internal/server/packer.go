package server

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/open"
	"github.com/cinch-layer/cinch/internal/store/pack"
)

// packer packs the store of one gateway in the background, while the configuration asks for that.
type packer struct {
	*pack.Background
	process *Process
	gateway *running
	engine  *codec.Engine // its own, so that it does not delay clients
	holder  string        // of the lease
	mixed   atomic.Bool   // the pass has met values that several users may have written

	stop  chan struct{} // closed to end packing
	ended chan struct{} // closed when packing has ended
}

// addPacker gives r a packer if r is a gateway to a store: any reload may turn packing on.
func (p *Process) addPacker(r *running) error {
	if r.store == nil {
		return nil
	}
	engine, err := p.options.Zstd.Engine(p.started.Zstd)
	if err != nil {
		return err
	}
	k := &packer{
		process: p, gateway: r, engine: engine, holder: pack.UniqueHolder(r.name),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
	k.Background = pack.NewBackground(pack.BackgroundOptions{
		Current: k.job, Open: k.openSession, Pause: r.store.backend.pause(), Unavailable: r.store.backend.isUnavailable, Log: r.log,
	})
	r.packer = k
	return nil
}

func (p *Process) startPacking() {
	for k := range p.packers() {
		go func() {
			defer close(k.ended)
			k.Run(k.gateway.store.ctx, k.stop)
		}()
	}
}

// stopPacking lets pages in progress finish, until ctx ends.
func (p *Process) stopPacking(ctx context.Context) {
	for k := range p.packers() {
		close(k.stop)
	}
	for k := range p.packers() {
		select {
		case <-k.ended:
		case <-ctx.Done():
			if !k.packing().Background {
				continue // it had nothing to do
			}
			p.log.Warn("packing in the background was interrupted", "gateway", k.gateway.name)
		}
	}
}

func (p *Process) packers() iter.Seq[*packer] {
	return func(yield func(*packer) bool) {
		for _, r := range p.gateways {
			if r.packer != nil && !yield(r.packer) {
				return
			}
		}
	}
}

// packing returns the current configuration of packing.
func (k *packer) packing() config.Pack {
	cfg := k.process.current.Load().cfg
	if g := cfg.Gateway(k.gateway.name); g != nil {
		return cfg.Packing(g)
	}
	return config.Pack{}
}

func (k *packer) maxSeal() int {
	return int(k.process.started.Gateway(k.gateway.name).MaxSeal) // a reload doesn't change it
}

func (k *packer) dicts() store.Dicts { return k.gateway.store.dicts }

// job returns what to pack under the current configuration.
func (k *packer) job() pack.Job {
	c := k.packing()
	if !c.Background {
		return pack.Job{}
	}
	cfg := k.process.current.Load().cfg
	return pack.Job{
		Formats: k.gateway.store.backend.hasFormats(),
		Policy:  k.gateway.auto.Policy(), Exclude: strings.Join(cfg.Gateway(k.gateway.name).Exclude, "\n"),
		DryRun: c.Mode == config.PackEstimate, Every: time.Duration(c.Every), Parallel: c.Parallel, MaxBytes: k.maxSeal(),
		KeysPerSecond: float64(c.KeysPerSecond), BytesPerSecond: float64(c.BytesPerSecond), MaxLatency: time.Duration(c.MaxLatency),
		IdleBelow: time.Duration(c.SkipIdleBelow), FreqAbove: c.SkipFreqAbove, StateFile: c.State,
	}
}

func (k *packer) openSession(ctx context.Context, rules *policy.Policy) (pack.Session, error) {
	if err := k.checkReady(rules); err != nil {
		return pack.Session{}, err
	}
	o := k.gateway.store.backend.scanOptions()
	o.Rules, o.Dicts = rules, k.dicts()
	s, err := open.Open(ctx, k.process.started.Gateway(k.gateway.name).Upstream, o)
	if err != nil {
		return pack.Session{}, err
	}
	writers := s.Writers(ctx)
	if logins := writers.Logins(); len(logins) <= dictionary.MaxLogins { // else those that write now come first
		for _, login := range logins {
			k.gateway.auto.Join(login)
		}
	}
	if err := k.checkInForce(rules); err != nil {
		s.Close()
		return pack.Session{}, err
	}
	return pack.Session{
		Name: s.Name(), Targets: s.Targets(), Close: s.Close,
		Lease: func(name string) store.Lease { return s.Lease(name, k.holder) },
		Seal: func(*policy.Policy) *pack.Seal {
			task := k.seal(rules)
			sealing := s.CompressionRules(rules)
			task.Rule, task.Indexed, task.Writer = sealing.Rule, sealing.Indexed, writers.Of
			k.mixed.Store(false)
			task.OnNobody = func(r *policy.Rule) {
				if !k.mixed.Swap(true) {
					k.gateway.log.Warn("values are packed without a dictionary where several users may write, or it is unknown who may",
						"rule", r.Name, "hint", "separate keys in the users' rights, or share_samples: true, allow one")
				}
			}
			return task
		},
	}, nil
}

// checkReady returns an error until values can be compressed with the dictionaries that their rules name.
func (k *packer) checkReady(rules *policy.Policy) error {
	if err := k.checkInForce(rules); err != nil {
		return err
	}
	return k.checkDicts(rules)
}

// checkInForce returns an error while rules are not the policy in force, or while the manager does not know its
// dictionaries yet.
func (k *packer) checkInForce(rules *policy.Policy) error {
	if auto := k.gateway.auto; !auto.Ready() || auto.Policy() != rules {
		return fmt.Errorf("%w: the dictionaries of rules with dictionary: auto are not known yet", pack.ErrNotYet)
	}
	return nil
}

// checkDicts returns an error until the server holds all dictionaries that rules name.
func (k *packer) checkDicts(rules *policy.Policy) error {
	for _, number := range rules.Dictionaries() {
		if !k.ready(number) {
			return fmt.Errorf("%w: dictionary %08x is not in the server", pack.ErrNotYet, number)
		}
		if _, err := k.dicts().Dictionary(number); err != nil {
			return fmt.Errorf("%w: dictionary %08x: %w", pack.ErrNotYet, number, err)
		}
	}
	return nil
}

func (k *packer) seal(rules *policy.Policy) *pack.Seal {
	return &pack.Seal{Policy: rules, Ready: k.ready, AllowRecode: k.packing().AllowRecode, Sealer: envelope.NewSealer(envelope.SealerOptions{
		Engine: k.engine, Dicts: k.dicts(), MaxRaw: k.maxSeal(), MaxOpen: k.maxSeal(),
	})}
}

// ready reports whether the server holds a dictionary. It asks the server before it returns false.
func (k *packer) ready(number uint32) bool {
	return store.ReadyNow(k.gateway.store.ctx, k.dicts(), number, open.AnswerTimeout)
}

// describe returns nil unless the gateway is configured to pack.
func (k *packer) describe() *admin.Packing {
	if k == nil || !k.packing().Background {
		return nil
	}
	s := k.Status()
	d := &admin.Packing{
		Wanted: s.Wanted, Running: s.Running, Estimate: s.DryRun, Done: s.Done, Duty: s.Duty, Trouble: s.Trouble,
		Passes: s.Passes[pack.PassDone], Keys: s.Report.Keys, Values: s.Report.Replaced,
		Paused:            s.Paused,
		WithoutDictionary: k.mixed.Load(),
		BeforeBytes:       s.Report.CostBefore, AfterBytes: s.Report.CostAfter, Problems: s.Report.Problems,
	}
	if !s.Last.IsZero() {
		d.LastPass = &s.Last
	}
	if !s.Since.IsZero() {
		d.PausedAt = &s.Since
	}
	return d
}

// packPageBytes limits what background packing holds, apart from values, for each page in progress: the page
// as read, the replacements, and their replies.
const packPageBytes = 16 << 20

// bytes returns how many bytes the packer may hold now.
func (k *packer) bytes() int64 {
	c := k.packing()
	if !c.Background {
		return 0
	}
	return int64(c.Parallel) * (packPageBytes + 3*int64(k.maxSeal()))
}
