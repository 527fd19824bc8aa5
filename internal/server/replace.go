package server

import (
	"context"
	"errors"
	"time"

	"github.com/cinch-layer/cinch/internal/server/upgrade"
)

const (
	// successorTimeout limits the start of a process that replaces this one.
	successorTimeout = time.Minute
	// unusedSocketTimeout limits how long sockets inherited from the previous process stay open unused: a gateway to a
	// cluster listens for each node once it has discovered it.
	unusedSocketTimeout = time.Minute
)

var (
	errReplaced = errors.New("replaced")
	errEmbedded = errors.New("the embedded store would be lost")
)

// Replace makes the process start its successor: the program now at this executable's path, with the same
// arguments and all of this process's sockets. When that serves, Run drains. Replace doesn't wait for that;
// the result is logged.
func (p *Process) Replace() {
	select {
	case p.replacements <- struct{}{}:
	default: // a replacement is pending already
	}
}

// replace starts the successor, and sends the result.
func (p *Process) replace(ctx context.Context, became chan<- error) {
	ctx, cancel := context.WithTimeout(ctx, successorTimeout)
	defer cancel()
	p.log.Info("starting a process that replaces this one")
	pid, err := 0, errEmbedded
	if !p.options.Embedded {
		pid, err = p.startSuccessor(ctx)
	}
	if err != nil {
		p.log.Error("not replaced, this process continues", "err", err)
	} else {
		p.log.Info("another process serves, on the same sockets", "pid", pid)
		upgrade.NotifyReplaced(pid, p.status())
	}
	became <- err
}

// startSuccessor starts the successor while no clients are held or moved. The successor would not know of a hold,
// and would let clients write to a primary that is being replaced. Once it serves, this process no longer holds
// clients.
func (p *Process) startSuccessor(ctx context.Context) (pid int, err error) {
	done, err := p.shared.preventHolds()
	if err != nil {
		return 0, err
	}
	ended := func(how string) { p.log.Warn("the process that replaced this one has ended", "how", how) }
	if pid, err = p.options.Sockets.Replace(ctx, ended); err != nil {
		done()
	}
	return pid, err
}

// notifyServing tells the parent process or service manager that this process serves.
func (p *Process) notifyServing() {
	sockets := p.options.Sockets
	sockets.Serving()
	upgrade.NotifyReady(p.status())
	sockets.CloseUnused(p.log, false)
	if sockets.Given() > 0 {
		time.AfterFunc(unusedSocketTimeout, func() { sockets.CloseUnused(p.log, true) })
	}
}

// status describes the process's state in one line, for systemd.
func (p *Process) status() string {
	if !p.reloaded.read().ok {
		return "serving; the last configuration was refused, an older one is in force"
	}
	return "serving"
}

// watchdog ticks twice in each interval in which the service manager expects a sign of life. It never ticks
// if none is expected.
func watchdog() *time.Ticker {
	if every := upgrade.WatchdogInterval(); every > 0 {
		return time.NewTicker(every / 2)
	}
	t := time.NewTicker(time.Hour)
	t.Stop()
	return t
}
