package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/postgres"
	"github.com/cinch-layer/cinch/internal/system/gc"
)

// Mirror is a run, configured by the flags of shadow, shadow check and replay.
type Mirror struct {
	Servers  Servers
	TLS      endpoint.TLSFiles // for clients
	Rules    []string          // of the gateway that is tested
	Config   shadow.Config
	Memory   string   // SIZE
	Storage  []string // TARGET=COMMAND
	JSON     bool
	HTML     string // file
	SelfTest bool
	Exit     bool // return when the run is over
	OffFile  string
	Page     Page
}

// shutdownTime limits how long clients may take to disconnect. Then they are cut off.
const shutdownTime = 10 * time.Second

// Run mirrors until a signal ends it. It returns nil for PASS, ErrFail, or ErrNoVerdict.
func (m *Mirror) Run(ctx context.Context, signals <-chan os.Signal, out, errs io.Writer) error {
	page, err := createReportFile(m.HTML)
	if err != nil {
		return err
	}
	defer removeEmptyReport(page)
	r, listen, err := m.prepare(ctx, signals, errs)
	if err != nil {
		return err
	}
	closePage, err := m.openPage(r, errs)
	if err != nil {
		return err
	}
	defer closePage()
	err = m.run(ctx, r, listen, m.watcher(r, signals, page, out, errs))
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	_ = r.Shutdown(stop)
	return err
}

// run serves clients, and mirrors them after the self-test. The port is bound only now, so that no client
// waits for the preparation.
func (m *Mirror) run(ctx context.Context, r *shadow.Run, listen string, w *Watcher) error {
	defer gc.Follow(r.MemoryLimit)()
	if !m.SelfTest {
		if err := r.Start(ctx); err != nil {
			return err
		}
	}
	l, err := gateway.Listen(listen)
	if err != nil {
		return terminal.WithHint(err, hintListen)
	}
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	fmt.Fprintf(w.Errs, "clients may connect to %s\n", l.Addr())
	if !m.SelfTest {
		fmt.Fprintln(w.Errs, mirrorOn)
		return w.Watch(served)
	}
	if err := m.selfTest(ctx, r, w); err != nil {
		return w.passThrough(err, served)
	}
	return w.startRun(ctx, served)
}

func (m *Mirror) openPage(r *shadow.Run, errs io.Writer) (closing func(), err error) {
	address, closing, err := m.Page.open(r, m.Config.Log)
	if address != "" {
		fmt.Fprintf(errs, "the admin page is at http://%s/\n", address)
	}
	return closing, err
}

// configure checks the flags, and fills in the configuration. It connects to the control target.
func (m *Mirror) configure(ctx context.Context, errs io.Writer) (p Protocol, listen string, err error) {
	p, listen, production, err := m.Servers.Protocol()
	if err != nil {
		return p, "", err
	}
	through, gateway := strings.CutPrefix(m.Servers.Test, "cinch=")
	if err := m.Servers.Parse(&m.Config, p, production, through); err != nil {
		return p, "", err
	}
	if err := cmp.Or(m.applyLimits(p), m.checkFlags(p, gateway)); err != nil {
		return p, "", err
	}
	if m.TLS.Cert != "" || m.TLS.Key != "" {
		if m.Config.ClientTLS, err = m.TLS.ServerConfig(); err != nil {
			return p, "", usage("%w", err)
		}
	}
	if gateway {
		if err := m.configureCandidate(p, through); err != nil {
			return p, "", err
		}
	}
	if m.Config.StorageCommands, err = storageCommands(m.Storage); err != nil {
		return p, "", err
	}
	m.Config.Log = slog.New(slog.NewTextHandler(errs, nil))
	if m.Config.Protocol, err = p.Open(ctx, &m.Config); err != nil {
		if errors.Is(err, postgres.ErrColumn) {
			return p, "", usage("--ignore-column: %w", err)
		}
		return p, "", fault{err, store.ErrUnreachable}
	}
	return p, listen, nil
}

// storageCommands parses --storage-command, and returns the commands by target.
func storageCommands(flags []string) (map[string]string, error) {
	commands := map[string]string{}
	for _, flag := range flags {
		target, command, ok := strings.Cut(flag, "=")
		if !ok || command == "" || target != "control" && target != "test" {
			return nil, usage("--storage-command: %q must be control=COMMAND or test=COMMAND", flag)
		}
		commands[target] = command
	}
	return commands, nil
}

// configureCandidate configures the run to put a gateway of this program in front of the test target.
func (m *Mirror) configureCandidate(p Protocol, url string) error {
	if p.Variable == "" {
		return usage("--test cinch=URL: not supported for %s", strings.TrimPrefix(p.Flag, "--"))
	}
	for _, rule := range m.Rules {
		if _, err := config.ParseRule(rule); err != nil {
			return usage("--rule: %w", err)
		}
	}
	g, err := p.Gateway(m.Config.Test, url, m.Rules)
	m.Config.Candidate, m.Config.Rules = g.Start, m.Rules
	return err
}

// selfTest runs the self-test, if it is configured. A signal ends it with an error. Turning the mirror off
// ends it without one, and the run that follows is over at once.
func (m *Mirror) selfTest(ctx context.Context, r *shadow.Run, w *Watcher) error {
	if !m.SelfTest {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tested := make(chan error, 1)
	go func() { tested <- r.SelfTest(ctx) }()
	look := time.NewTicker(offFileInterval)
	defer look.Stop()
	for {
		select {
		case err := <-tested:
			if r.IsOff() {
				return nil
			}
			if err == nil {
				fmt.Fprintln(w.Errs, "self-test passed")
			}
			return err
		case sig := <-w.Signals:
			if sig == syscall.SIGUSR1 {
				w.handleSignal(sig)
				continue
			}
			cancel()
			return errors.Join(fmt.Errorf("%w: %v", errInterrupted, sig), <-tested)
		case <-look.C:
			w.checkOffFile()
		}
	}
}

func (m *Mirror) watcher(r *shadow.Run, signals <-chan os.Signal, page *os.File, out, errs io.Writer) *Watcher {
	return &Watcher{
		Run: r, Signals: signals, Out: out, Errs: errs, ReportFile: page,
		JSON: m.JSON, Exit: m.Exit, OffFile: m.OffFile, Every: m.Config.Batch,
	}
}
