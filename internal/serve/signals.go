package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Signals are those that RunUntil wants to hear of.
var Signals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR2}

// RunUntil is Run under signals: the first that ends drains, one in a drain cuts off (ErrCutOff). SIGHUP and SIGUSR2 are neither: they
// reload, and replace the process, which drains then.
func (p *Process) RunUntil(signals <-chan os.Signal) error {
	ctx, drain := context.WithCancelCause(context.Background())
	now, stop := context.WithCancelCause(context.Background())
	ended := make(chan struct{})
	defer close(ended)
	obey := func(sig os.Signal) {
		switch {
		case sig == syscall.SIGHUP:
			p.Reload()
		case sig == syscall.SIGUSR2:
			p.Replace()
		case ctx.Err() == nil && !p.draining.Load():
			drain(errors.New(sig.String()))
		default:
			stop(errors.New(sig.String()))
		}
	}
	go func() {
		for {
			select {
			case <-ended:
				return
			case sig := <-signals:
				obey(sig)
			}
		}
	}()
	err := p.Run(ctx, now)
	if errors.Is(err, ErrCutOff) {
		return fmt.Errorf("%w by a second signal (%w)", err, context.Cause(now))
	}
	return err
}
