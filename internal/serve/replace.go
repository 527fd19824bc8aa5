package serve

import (
	"context"
	"errors"
	"time"

	"github.com/cinch-layer/cinch/internal/handover"
)

const (
	// successorTimeout bounds the start of a process that is to replace us.
	successorTimeout = time.Minute
	// leftTimeout is how long sockets of the process before us wait for who listens there: a gateway to a cluster does for
	// each node, when it has learnt of that.
	leftTimeout = time.Minute
)

var (
	errReplaced = errors.New("replaced")
	errToy      = errors.New("the embedded store would be lost")
)

// Replace has the process start its successor: the program that lies where ours did, with the same arguments and all of our
// sockets. When that serves, Run drains. It doesn't wait for that; the log tells.
func (p *Process) Replace() {
	select {
	case p.replacements <- struct{}{}:
	default: // it is due already
	}
}

// replace starts the successor, and sends what became of it.
func (p *Process) replace(ctx context.Context, became chan<- error) {
	ctx, cancel := context.WithTimeout(ctx, successorTimeout)
	defer cancel()
	p.log.Info("starting a process that replaces this one")
	pid, err := 0, errToy
	if !p.options.Toy {
		pid, err = p.succeed(ctx)
	}
	if err != nil {
		p.log.Error("not replaced, this process goes on", "err", err)
	} else {
		p.log.Info("another process serves, on the same sockets", "pid", pid)
		handover.SayReplaced(pid, p.status())
	}
	became <- err
}

// succeed starts the successor while no clients are held or moved: it would know nothing of that, and let them write to a primary that is
// being replaced. When it serves, nobody is held here any more.
func (p *Process) succeed(ctx context.Context) (pid int, err error) {
	done, err := p.shared.keepOpen()
	if err != nil {
		return 0, err
	}
	ended := func(how string) { p.log.Warn("the process that replaced this one has ended", "how", how) }
	if pid, err = p.options.Sockets.Replace(ctx, ended); err != nil {
		done()
	}
	return pid, err
}

// serving tells who has started us that we serve.
func (p *Process) serving() {
	sockets := p.options.Sockets
	sockets.Serving()
	handover.SayReady(p.status())
	sockets.CloseUnused(p.log, false)
	if sockets.Given() > 0 {
		time.AfterFunc(leftTimeout, func() { sockets.CloseUnused(p.log, true) })
	}
}

// status is a line for people.
func (p *Process) status() string {
	if !p.reloaded.read().ok {
		return "serving; the last configuration was refused, an older one is in force"
	}
	return "serving"
}

// watchdog ticks as often as we have to say that we are alive; never where nobody asks.
func watchdog() *time.Ticker {
	if every := handover.WatchdogInterval(); every > 0 {
		return time.NewTicker(every / 2)
	}
	t := time.NewTicker(time.Hour)
	t.Stop()
	return t
}
