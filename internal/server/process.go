package server

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/observe/history"
	"github.com/cinch-layer/cinch/internal/server/upgrade"
	"github.com/cinch-layer/cinch/internal/system/gc"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// Process runs all gateways of one 'cinch serve'. Make it with New.
type Process struct {
	options *Options
	log     *slog.Logger
	level   *slog.LevelVar

	started *config.Config // the first configuration, for what can't change at run time
	current atomic.Pointer[loaded]

	shared   *shared
	gateways []*running
	access   adminAccess // access rules of the admin page
	registry *prometheus.Registry
	metrics  *gateway.Metrics
	admin    *adminPage       // nil when it is off
	history  *history.History // nil if counters are neither stored nor shown
	ledger   *admin.Ledger    // totals that the page prices

	warnings []config.Problem // of the configuration that the process was started with

	acceptsActions bool       // the admin page accepts credentials
	overriding     sync.Mutex // held while rules are overridden or reloaded

	draining atomic.Bool
	probes   probes
	reloads  chan struct{} // holds a pending reload
	reloaded reloads

	replacements chan struct{} // holds a pending replacement
}

// New builds a process and listens on every address before it serves anything, so that a start either
// succeeds as a whole or leaves nothing behind. All that can fail apart from listening fails in prepare,
// which Check calls too. Other errors are a *ListenError, or report servers that may not be opened to other
// machines.
func New(o Options) (*Process, error) {
	p, err := prepare(o)
	if err != nil {
		return nil, err
	}
	p.warn(p.warnings)
	if err = refuseOpenListeners(p.started, p.gateways); err == nil {
		err = p.listen()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.history = openHistory(p.started, p.shared.engine, p.log)
	if p.admin != nil {
		p.admin.server = p.newAdminServer()
	}
	return p, nil
}

// listen takes the port or socket of every gateway and of the admin page.
func (p *Process) listen() (err error) {
	for i, r := range p.gateways {
		g := &p.started.Gateways[i]
		if err := r.listen(p.options, g); err != nil {
			return err
		}
		if err := refuseOpenPeers(p.started, g, r); err != nil {
			return err
		}
	}
	if p.started.Admin.Listen != config.Off {
		p.admin, err = p.listenAdmin()
	}
	return err
}

func newLogger(cfg config.Log, level *slog.LevelVar, to io.Writer) *slog.Logger {
	setLevel(level, cfg.Level)
	options := &slog.HandlerOptions{Level: level}
	var lines slog.Handler = slog.NewTextHandler(to, options)
	if cfg.Format == "json" {
		options.ReplaceAttr = durationsAsText
		lines = slog.NewJSONHandler(to, options)
	}
	return slog.New(gateway.SparseLog(lines))
}

// durationsAsText writes 1.5s in JSON where slog writes 1500000000.
func durationsAsText(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func setLevel(level *slog.LevelVar, name string) {
	_ = level.UnmarshalText([]byte(name)) // the configuration was validated
}

// Addresses returns the addresses of the gateways and of the admin page, which is nil when that is off.
func (p *Process) Addresses() (gateways []net.Addr, admin net.Addr) {
	for _, r := range p.gateways {
		gateways = append(gateways, r.listener.Addr())
	}
	if p.admin != nil {
		admin = p.admin.listener.Addr()
	}
	return gateways, admin
}

// close frees what New made. Listeners that were served are closed already.
func (p *Process) close() {
	for _, r := range p.gateways {
		r.close()
	}
	if p.admin != nil {
		_ = p.admin.listener.Close()
	}
	p.history.Close()
	closeTracer(p.shared.tracer, p.log)
}

// Run serves until ctx ends, then drains: it stops accepting, and waits until clients have gone, for at most
// the drain timeout. The log names the cause of ctx. Run returns nil after a drain, or ErrCutOff if now ended
// the drain. A Process runs once.
func (p *Process) Run(ctx, now context.Context) (err error) {
	p.log.Info("starting", "version", p.options.Version, "zstd", p.shared.engine.ZstdName(), "budget", p.started.Memory.Budget.String())
	defer func() {
		if err == nil {
			p.log.Info("stopped") // last, when all counters are in the history
		}
	}()
	defer p.close()
	defer gc.Follow(p.memoryLimit)()
	defer takeSamples(p.history, p.ledger, p.gateways, p.shared.trainer)()
	failed := p.start()
	go p.warnUnreachable()
	p.startPacking()
	p.notifyServing()
	replaced, alive := make(chan error, 1), watchdog()
	defer alive.Stop()
	for {
		select {
		case err := <-failed:
			return err
		case <-p.reloads:
			p.reload()
		case <-p.replacements:
			go p.replace(ctx, replaced)
		case err := <-replaced:
			if err == nil {
				return p.drain(errReplaced, now, alive)
			}
		case <-alive.C:
			upgrade.NotifyAlive()
		case <-ctx.Done():
			return p.drain(context.Cause(ctx), now, alive)
		}
	}
}

// start serves on all listeners. The returned channel receives the errors that end them.
func (p *Process) start() (failed chan error) {
	failed = make(chan error, len(p.gateways)+1)
	for _, r := range p.gateways {
		p.log.Info("gateway listens", "gateway", r.name, "address", r.listener.Addr().String(), "upstream", r.upstream.String())
		if r.store != nil {
			r.store.adopt(p.current.Load().ruleDicts(r.name))
			go panics.KeepRunning(r.store.ctx, r.log, r.stats, r.store.dicts.Run)
			go panics.KeepRunning(r.store.ctx, r.log, r.stats, r.auto.Run)
			go panics.KeepRunning(r.store.ctx, r.log, r.stats, r.store.backend.warnIfGateway)
		}
		go func() { failed <- r.gateway.Serve(r.listener) }()
	}
	if p.admin != nil {
		p.log.Info("admin page listens", "address", p.admin.listener.Addr().String())
		go func() { failed <- p.admin.server.Serve(p.admin.listener) }()
	}
	return failed
}

// drain ends all gateways, by force when the timeout expires or now ends. The admin page stays up until they
// have ended, so that probes learn, even during the delay, that clients should go elsewhere. In a process
// that was replaced there is no delay and the admin page closes at once: the successor answers.
func (p *Process) drain(cause error, now context.Context, alive *time.Ticker) error {
	p.draining.Store(true)
	timeout := time.Duration(p.started.DrainTimeout)
	delay := time.Duration(p.started.DrainDelay)
	if cause == errReplaced {
		delay = 0
		p.closeAdmin()
	} else {
		upgrade.NotifyStopping(delay+timeout+shutdownTimeout, "draining")
	}
	p.log.Info("draining; another signal stops at once", "signal", cause.Error(), "delay", delay, "timeout", timeout)
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
			return nil
		case <-alive.C:
			upgrade.NotifyAlive()
		case <-now.Done():
			return ErrCutOff
		}
	}
}

// shutdownTimeout limits how long shutting down takes beyond the drain.
const shutdownTimeout = 5 * time.Second

func (p *Process) shutdown(ctx context.Context) {
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
	p.closeAdmin()
}

func (p *Process) closeAdmin() {
	if p.admin != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = p.admin.server.Shutdown(ctx)
	}
}
