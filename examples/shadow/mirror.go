package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/rig"
)

// outcome holds the results of the run.
type outcome struct {
	Report   *shadow.Report
	Noisy    bool     // the self-test could not detect a slowdown of 20 %, so the run skipped it
	Compsize [2]int64 // of control and test; 0: compsize is not installed
	Unequal  []string // tables that differ
	Whole    bool     // the mirror was on to the end, so production was compared too
	page     string
}

// process is a running cinch shadow.
type process struct {
	cmd   *exec.Cmd
	out   bytes.Buffer
	ready chan struct{} // closed when clients' requests are mirrored
	ended chan error
	noisy bool
}

// judgeMachines runs the A/A phase as a separate run: both copies have the same filesystem, and their
// differences are kept in a file that the next run reads.
func (c *cell) judgeMachines(ctx context.Context) error {
	if c.o.alike == 0 {
		return nil
	}
	c.state = filepath.Join(c.work, "state.json")
	if err := c.copies(ctx, "noatime"); err != nil {
		return err
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		return err
	}
	out := &outcome{}
	p, err := c.shadow(addr, "--baseline-only", "--self-test=false", "--data-check", "off")
	if err != nil {
		return err
	}
	select {
	case <-p.ready:
	case err := <-p.ended:
		return fmt.Errorf("cinch shadow: %w", err)
	case <-ctx.Done():
	}
	if err := c.drive(ctx, addr, p, out, c.o.alike); err != nil {
		return err
	}
	if out.Report.Outcome == "VOID" {
		return fmt.Errorf("the A/A phase is void: %q", out.Report.Reasons)
	}
	return c.drop()
}

// mirror runs cinch shadow, and clients through it.
func (c *cell) mirror(ctx context.Context) (*outcome, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	out, judged := &outcome{page: c.o.page}, []string{"--data-check", "full", "--html", c.o.page}
	p, err := c.shadow(addr, judged...)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.ready:
	case err := <-p.ended:
		if out.Noisy = p.noisy; !out.Noisy {
			return nil, fmt.Errorf("cinch shadow: %w", err)
		}
		c.say("The self-test failed because this machine is too noisy for a verdict; the run continues without it.")
		_ = os.Remove(c.o.page) // it is empty
		if p, err = c.shadow(addr, append(judged, "--self-test=false")...); err != nil {
			return nil, err
		}
	case <-ctx.Done():
	}
	return out, c.drive(ctx, addr, p, out, c.o.duration)
}

// drive runs clients until cinch shadow ends or their time is over, and reads the report.
func (c *cell) drive(ctx context.Context, addr string, p *process, out *outcome, during time.Duration) error {
	_, port, _ := net.SplitHostPort(addr)
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	loaded := make(chan error, 1)
	go func() { loaded <- c.load(work, port, during) }()
	var ended, failed error
	select {
	case ended = <-p.ended: // with a verdict
		cancel()
		<-loaded
	case failed = <-loaded:
		_ = p.cmd.Process.Signal(os.Interrupt)
		select {
		case ended = <-p.ended:
		case <-ctx.Done():
			_ = p.cmd.Process.Signal(os.Interrupt) // so that it stops waiting for the targets
			ended = <-p.ended
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := json.Unmarshal(p.out.Bytes(), &out.Report); err != nil {
		return fmt.Errorf("cinch shadow: %w", errors.Join(ended, err, failed))
	}
	if out.Whole = out.Report.Ended == os.Interrupt.String(); out.Whole {
		return failed
	}
	return nil // cinch shadow's end has disconnected clients
}

// shadow starts cinch shadow as a user would.
func (c *cell) shadow(listen string, more ...string) (*process, error) {
	args := append([]string{
		"shadow", "--postgres", listen + "=" + c.production.url(), "--control", c.control.url(), "--test", c.test.url(),
		"--reads", "1", "--bound", "1s", "--batch", c.o.batch.String(), "--json", "--exit",
	}, more...)
	if c.state != "" {
		args = append(args, "--state", c.state)
	}
	c.say("\n$ cinch %s", strings.Join(args, " "))
	p := &process{cmd: exec.Command(c.o.cinch, args...), ready: make(chan struct{}), ended: make(chan error, 1)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGINT}
	p.cmd.Stdout = &p.out
	errs, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.follow(errs, c.progress)
	return p, nil
}

// follow copies the program's log until it ends.
func (p *process) follow(errs io.Reader, to io.Writer) {
	for s := bufio.NewScanner(errs); s.Scan(); {
		fmt.Fprintln(to, s.Text())
		if strings.HasPrefix(s.Text(), "the mirror is on") {
			close(p.ready)
		}
		p.noisy = p.noisy || strings.Contains(s.Text(), "too noisy for a verdict")
	}
	p.ended <- p.cmd.Wait()
}
