package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/internal/admin"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/grpc"
	"github.com/cinch-layer/cinch/internal/gateway/mongo"
	"github.com/cinch-layer/cinch/internal/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/ui"
)

// process is everything that a running serve holds:
//
//	process -> codec engine, byte budgets      one of each
//	        -> admin server                    at most one
//	        -> running gateway, one a listener -> protocol's gateway, upstream, policy
//
// newProcess listens on every address before anything is served, so that a
// start either succeeds as a whole or leaves nothing behind.
type process struct {
	options processOptions
	log     *slog.Logger
	level   *slog.LevelVar
	engine  *codec.Engine

	// One budget a direction: a request that waits for bytes never keeps a
	// reply from leaving, nor the reverse.
	requests, replies *gateway.Budget

	trainer *autodict.Trainer // of dictionaries, for all gateways

	topology mongo.Topology // which gateways stand for which members of replica sets
	mongo    []*mongo.Gateway
	links    []*link.Endpoint

	grpcSet   *grpccodec.Set // of all gateways for gRPC; nil without one
	grpcCache *grpc.Cache
	grpc      []*grpc.Gateway

	started  *config.Config // what can't change while we run
	current  atomic.Pointer[loaded]
	gateways []*running

	admin         *admin.Server // nil when it is off
	adminListener net.Listener
	draining      atomic.Bool
	probes        probes

	packers []*gatewayPacker // of the gateways to stores
}

type processOptions struct {
	load  func() (*config.Config, error) // for SIGHUP
	pprof bool
	force bool // every policy gets Force
	toy   bool // the store is the embedded one
	logTo io.Writer
}

// named returns the dictionaries that the gateway's rules name, and the numbers
// of those that are in no file.
func (l *loaded) named(gateway string) (files []*codec.Dict, others []uint32) {
	others = l.policies[gateway].Dictionaries()
	for _, d := range l.dicts {
		if i := slices.Index(others, d.Number()); i >= 0 {
			files, others = append(files, d), slices.Delete(others, i, i+1)
		}
	}
	return files, others
}

// loaded is a configuration with what its files hold. A reload replaces it.
type loaded struct {
	cfg      *config.Config
	dicts    map[string]*codec.Dict
	policies map[string]*policy.Policy   // by gateway, of stores
	messages map[string]*policy.Messages // by gateway, of protocols whose messages are compressed
}

// running is one gateway at work.
type running struct {
	name     string
	upstream gateway.Upstream
	others   []gateway.Upstream                      // servers that do as well
	dial     func(context.Context) (net.Conn, error) // connects to the store, where upstream leads to its Sentinels; or nil
	sentinel net.Listener                            // for clients of Sentinels; or nil
	listener net.Listener
	stats    *gateway.Stats
	gateway  protocolGateway

	// Of a gateway to a store; nil for others.
	keeper *redisKeeper
	auto   *autodict.Manager // says which policy is in force

	tarantool *tarantoolKeeper // of a gateway to Tarantool; nil for others

	tunnelSetting string // of an end of a tunnel; "" for others

	// Of a gateway that compresses messages on the wire; nil for others.
	messages messageGateway
	kinds    *autodict.Messages // of a gateway for gRPC; nil for others
}

// messageGateway is a gateway whose rules are for messages.
type messageGateway interface {
	SetPolicy(*policy.Messages)
}

// protocolGateway is what the gateways of all protocols offer.
type protocolGateway interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
}

func newProcess(cfg *config.Config, o processOptions) (_ *process, err error) {
	p := &process{options: o, started: cfg, level: new(slog.LevelVar)}
	p.log = newLogger(cfg.Log, p.level, o.logTo)
	half := int64(cfg.Memory.Budget) / 2
	p.requests, p.replies = gateway.NewBudget(half), gateway.NewBudget(half)
	if p.engine, err = engineWith(cfg.Zstd); err != nil {
		return nil, err
	}
	p.trainer = p.newTrainer()
	l, err := p.loadFiles(cfg)
	if err != nil {
		return nil, withCode(exitConfig, err)
	}
	p.current.Store(l)
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	for i := range cfg.Gateways {
		if err := p.addGateway(l, &cfg.Gateways[i]); err != nil {
			return nil, err
		}
	}
	if err := p.newPackers(); err != nil {
		return nil, err
	}
	return p, p.addAdmin(cfg)
}

func newLogger(cfg config.Log, level *slog.LevelVar, to io.Writer) *slog.Logger {
	setLevel(level, cfg.Level)
	options := &slog.HandlerOptions{Level: level}
	var lines slog.Handler = slog.NewTextHandler(to, options)
	if cfg.Format == "json" {
		lines = slog.NewJSONHandler(to, options)
	}
	return slog.New(gateway.SparseLog(lines))
}

func setLevel(level *slog.LevelVar, name string) {
	_ = level.UnmarshalText([]byte(name)) // the configuration has checked it
}

func engineWith(zstd string) (*codec.Engine, error) {
	if zstd == "go" {
		return codec.New(codec.Options{}), nil
	}
	z, ok := libzstd.New()
	if ok {
		return codec.New(codec.Options{Zstd: z}), nil
	}
	if zstd == "libzstd" {
		return nil, withCode(exitConfig, ui.WithHint(libzstd.ErrUnavailable, "build with CGO_ENABLED=1 and a C compiler, or use zstd: go"))
	}
	return codec.New(codec.Options{}), nil
}

// loadFiles reads the dictionaries and builds the policies.
func (p *process) loadFiles(cfg *config.Config) (*loaded, error) {
	dicts, err := cfg.LoadDictionaries()
	if err != nil {
		return nil, err
	}
	l := &loaded{cfg: cfg, dicts: dicts, policies: map[string]*policy.Policy{}, messages: map[string]*policy.Messages{}}
	for i := range cfg.Gateways {
		g := &cfg.Gateways[i]
		if !g.HasStore() {
			if l.messages[g.Name], err = g.Messages(dicts); err != nil {
				return nil, err
			}
			l.messages[g.Name].Force = p.options.force
			continue
		}
		if l.policies[g.Name], err = g.Policy(config.Numbers(dicts)); err != nil {
			return nil, err
		}
		l.policies[g.Name].Force = p.options.force
	}
	return l, nil
}

func (p *process) addGateway(l *loaded, g *config.Gateway) error {
	stats := gateway.NewStats(g.Name, g.Protocol)
	log := p.log.With("gateway", g.Name)
	up, err := l.cfg.UpstreamOf(g, log)
	if err != nil {
		return withCode(exitConfig, err)
	}
	up.Stats = stats
	tls, err := l.cfg.ServerTLS(g, log)
	if err != nil {
		return withCode(exitConfig, err)
	}
	listener, err := listen(g.Listen, "gateway "+g.Name)
	if err != nil {
		return err
	}
	listener = behindProxy(g, listener)
	r := &running{name: g.Name, upstream: up, listener: listener, stats: stats}
	switch g.Protocol {
	case config.GRPC:
		p.addGRPC(l, g, r, tls, log)
	case config.Mongo:
		p.addMongo(l, g, r, tls, log)
	case config.Tarantool:
		if err := p.addTarantool(l, g, r, tls, log); err != nil {
			_ = listener.Close()
			return withCode(exitConfig, err)
		}
	case config.Tunnel, config.TunnelExit:
		p.addTunnel(g, r, tls, log)
	default:
		if err := p.addRedis(l, g, r, tls, log); err != nil {
			_ = listener.Close()
			return withCode(exitConfig, err)
		}
	}
	p.gateways = append(p.gateways, r)
	return nil
}

// behindProxy is a listener whose connections begin with PROXY headers, if they are to.
func behindProxy(g *config.Gateway, l net.Listener) net.Listener {
	if !g.ProxyProtocol {
		return l
	}
	trusted, _ := g.ProxyTrusted() // was validated
	return &gateway.Proxied{Listener: l, Trusted: trusted}
}

func listen(addr, who string) (net.Listener, error) {
	l, err := gateway.Listen(addr)
	if err == nil {
		return l, nil
	}
	err = fmt.Errorf("%s: %w", who, err)
	switch {
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, gateway.ErrAddressInUse):
		return nil, ui.WithHint(err, "another process serves that address, perhaps another cinch: choose a different one")
	case errors.Is(err, os.ErrPermission):
		return nil, ui.WithHint(err, "ports below 1024, and sockets in others' directories, need rights that this user lacks")
	}
	return nil, err
}

func (p *process) addAdmin(cfg *config.Config) error {
	if cfg.Admin.Listen == config.Off {
		return nil
	}
	b := readBuild()
	metrics := &gateway.Metrics{
		Requests: p.requests, Replies: p.replies, Codec: p.engine.InFlight,
		Version: b.version, Revision: b.revision,
	}
	dictionaries := &autodict.Metrics{Trainer: p.trainer}
	for _, r := range p.gateways {
		metrics.Gateways = append(metrics.Gateways, r.stats)
		if r.auto != nil {
			dictionaries.Managers = append(dictionaries.Managers, autodict.NamedManager{Gateway: r.name, Manager: r.auto})
		}
	}
	registry := prometheus.NewRegistry()
	if p.grpcCache != nil {
		registry.MustRegister(p.grpcCache, &grpc.Metrics{Gateways: p.grpc})
	}
	if err := errors.Join(metrics.Register(registry), registry.Register(dictionaries), registry.Register(p.packMetrics()), registry.Register(&mongo.Metrics{Gateways: p.mongo}), registry.Register(&link.Metrics{Endpoints: p.links})); err != nil {
		return err
	}
	access, err := p.listenAdmin(cfg)
	if err != nil {
		return err
	}
	p.admin = admin.New(admin.Options{
		Access:  access,
		Metrics: metrics, Gatherer: registry, Describe: p.describe, Ready: p.ready,
		Messages: p.describeMessageKinds, PProf: p.options.pprof, Log: p.log,
	})
	return nil
}

// close frees what newProcess made. Listeners that were served are closed already.
func (p *process) close() {
	for _, r := range p.gateways {
		_ = r.listener.Close()
		if r.sentinel != nil {
			_ = r.sentinel.Close()
		}
		if r.keeper != nil {
			r.keeper.close()
		}
		if r.tarantool != nil {
			r.tarantool.close()
		}
	}
	if p.adminListener != nil {
		_ = p.adminListener.Close()
	}
}

// run serves until a signal ends it, and returns nil after a drain.
func (p *process) run(signals <-chan os.Signal) error {
	p.log.Info("starting", "version", readBuild().version, "zstd", p.engine.ZstdName(), "budget", p.started.Memory.Budget.String())
	defer p.close()
	stopMemory := p.boundMemory()
	defer stopMemory()
	defer raiseFloor()()
	failed := make(chan error, len(p.gateways)+1)
	for _, r := range p.gateways {
		p.log.Info("gateway listens", "gateway", r.name, "address", r.listener.Addr().String(), "upstream", r.upstream.String())
		if r.keeper != nil {
			r.keeper.adopt(p.current.Load().named(r.name))
			go r.keeper.dicts.Run(r.keeper.ctx)
			go r.auto.Run(r.keeper.ctx)
		}
		if r.tarantool != nil {
			r.tarantool.adopt(p.current.Load().named(r.name))
			go r.tarantool.dicts.Run(r.tarantool.ctx)
			go r.auto.Run(r.tarantool.ctx)
		}
		go func() { failed <- r.gateway.Serve(r.listener) }()
	}
	if p.admin != nil {
		p.log.Info("admin page listens", "address", p.adminListener.Addr().String())
		go func() { failed <- p.admin.Serve(p.adminListener) }()
	}
	go p.warnUnreachable()
	p.startPacking()
	for {
		select {
		case err := <-failed:
			return err
		case sig := <-signals:
			if sig == syscall.SIGHUP {
				p.reload()
				continue
			}
			return p.drain(sig, signals)
		}
	}
}

// drain ends all gateways, by force when the time is up or another signal
// comes. The admin page stays until they have ended: whoever asks it learns, during a delay too, that
// clients should go elsewhere.
func (p *process) drain(sig os.Signal, signals <-chan os.Signal) error {
	p.draining.Store(true)
	timeout := time.Duration(p.started.DrainTimeout)
	delay := time.Duration(p.started.DrainDelay)
	p.log.Info("draining; another signal stops at once", "signal", sig.String(), "delay", delay, "timeout", timeout)
	ctx, cancel := context.WithTimeout(context.Background(), delay+timeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		time.Sleep(delay)
		p.shutdown(ctx)
		close(done)
	}()
	for {
		select {
		case <-done:
			p.log.Info("stopped")
			return nil
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				return withCode(exitInterrupted, fmt.Errorf("stopped by a second signal (%s) while draining", sig))
			}
		}
	}
}

func (p *process) shutdown(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { p.stopPacking(ctx) })
	for _, r := range p.gateways {
		all.Go(func() {
			if err := r.gateway.Shutdown(ctx); err != nil {
				p.log.Warn("connections cut off", "gateway", r.name, "err", err)
			}
		})
	}
	all.Wait()
	if p.admin != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.admin.Shutdown(ctx)
	}
}
