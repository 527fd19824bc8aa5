package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Signals lists the signals that RunUntil handles.
var Signals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR2}

// RunUntil calls Run and handles signals. The first SIGINT or SIGTERM drains, the next one cuts connections off
// (ErrCutOff). SIGHUP reloads; SIGUSR2 replaces the process, which then drains.
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
