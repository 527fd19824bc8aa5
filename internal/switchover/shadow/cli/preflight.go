package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// prepare returns a run whose flags, files and servers have been checked. Clients are not served yet. A
// signal ends it; after SIGUSR1 the mirror of the returned run is off.
func (m *Mirror) prepare(ctx context.Context, signals <-chan os.Signal, errs io.Writer) (*shadow.Run, string, error) {
	type result struct {
		run    *shadow.Run
		listen string
	}
	found := make(chan result, 1) // not shared: an interrupted newRun may continue after this returns
	off, err := runInterruptible(ctx, signals, func(ctx context.Context) error {
		r, listen, err := m.newRun(ctx, errs)
		found <- result{r, listen}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	f := <-found
	if off {
		f.run.Off("SIGUSR1")
	}
	return f.run, f.listen, nil
}

// checkTimeout limits the time of all requests to servers together. Until they are done, clients have no port to
// connect to.
const checkTimeout = 2 * time.Minute

func (m *Mirror) newRun(ctx context.Context, errs io.Writer) (*shadow.Run, string, error) {
	p, listen, err := m.configure(ctx, errs)
	if err != nil {
		return nil, "", err
	}
	r := shadow.New(m.Config)
	if err := r.Load(); err != nil {
		return nil, "", err
	}
	if err := checkServers(ctx, r); err != nil {
		return nil, "", err
	}
	if err := m.tryCandidate(ctx); err != nil {
		return nil, "", err
	}
	if m.Servers.RecordedProtocol == "" {
		p.probeProduction(ctx, m.Config.Production, errs)
	}
	return r, listen, nil
}

// checkServers checks the servers.
func checkServers(ctx context.Context, r *shadow.Run) error {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTimeout, fmt.Errorf("servers have not answered within %v", checkTimeout))
	defer cancel()
	if err := r.Apart(ctx); err != nil {
		return terminal.WithHint(usage("%w", err), "use a separate server for each target")
	}
	if err := shadow.Fit(ctx, r); err != nil {
		return fault{errors.Join(err, context.Cause(ctx)), store.ErrUnreachable}
	}
	return nil
}

// tryCandidate starts the gateway to be tested, and stops it. Otherwise an error in its rules would show only
// after the A/A phase, hours later.
func (m *Mirror) tryCandidate(ctx context.Context) error {
	if m.Config.Candidate == nil {
		return nil
	}
	_, stop, err := m.Config.Candidate(ctx)
	if err != nil {
		return terminal.WithHint(fmt.Errorf("the gateway of --test cinch=URL does not start: %w", err), "run cinch serve with the same --rule and URL, and read its error")
	}
	stop()
	return nil
}

// probeTimeout limits the time to connect to production.
const probeTimeout = 5 * time.Second

// probeProduction warns if production can't be reached. The run begins anyway: clients get the same errors as
// without the mirror, and are served as soon as production is back.
func (p Protocol) probeProduction(ctx context.Context, production endpoint.Upstream, errs io.Writer) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	c, err := p.dial(ctx, production)
	if err != nil {
		fmt.Fprintf(errs, "warning: production (%s) can't be reached: %v. Until it can be reached, clients are disconnected, as without the mirror. Check that it runs, and the address in %s\n",
			production, err, p.Flag)
		return
	}
	_ = c.Close()
}

// hintListen is the hint for a port that can't be bound.
const hintListen = "choose another address for clients, or stop the program that uses this one"

var errInterrupted = errors.New("stopped by a signal before the run began")

// signalGrace limits how long interrupted work may take to end: a gateway that is being tried is a process that must be
// stopped.
const signalGrace = 2 * time.Second

// runInterruptible does work until it is done or a signal ends it. After a signal it waits for the work no longer than
// signalGrace. SIGUSR1 does not end it, but sets off.
func runInterruptible(ctx context.Context, signals <-chan os.Signal, work func(context.Context) error) (off bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	for {
		select {
		case err := <-done:
			return off, err
		case sig := <-signals:
			if sig == syscall.SIGUSR1 {
				off = true
				continue
			}
			cancel()
			select {
			case <-done:
			case <-time.After(signalGrace):
			}
			return off, fmt.Errorf("%w: %v", errInterrupted, sig)
		}
	}
}

// Check prints the problems that a run would have, and returns how many of them prevent it.
func (m *Mirror) Check(ctx context.Context, probe time.Duration, out, errs io.Writer) (problems int, err error) {
	if probe <= 0 {
		return 0, terminal.WithHint(usage("--probe: %v must be longer than 0", probe), "leave it out for the default 20s")
	}
	if _, _, err := m.configure(ctx, errs); err != nil {
		return 0, err
	}
	r := shadow.New(m.Config)
	var found []shadow.Finding
	if err := r.Load(); err != nil {
		found = append(found, shadow.Finding{Problem: true, Text: err.Error(), Hint: terminal.Hint(err)})
	}
	more, err := r.Check(ctx, probe)
	if err != nil {
		if terminal.Hint(err) == "" {
			err = terminal.WithHint(err, shadow.HintReach)
		}
		return 0, fault{err, store.ErrUnreachable}
	}
	return printFindings(out, append(found, more...), m.JSON)
}
