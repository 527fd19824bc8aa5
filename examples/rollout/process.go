package main

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/cinch-layer/cinch/test/rig/tail"
)

// process is a program of the example. It has its own process group, so that a ^C at the terminal does not
// reach it.
type process struct {
	name  string
	cmd   *exec.Cmd
	out   tail.Buffer // its output
	ended chan struct{}
	err   error // set before ended is closed
}

// run starts a program. also gets a copy of its stderr.
func (c *cell) run(name string, also io.Writer, program string, args ...string) (*process, error) {
	p := &process{name: name, cmd: exec.Command(program, args...), ended: make(chan struct{})}
	p.cmd.Dir = c.work
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if also != nil {
		p.cmd.Stderr = io.MultiWriter(&p.out, also)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// stopTime is the time that a program has for a clean exit.
const stopTime = time.Minute

// stop terminates a program and waits until it has exited.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(stopTime):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// numberBehind reads the number after some words.
func numberBehind(text, words string, to *int) error {
	_, rest, ok := strings.Cut(text, words)
	if _, err := fmt.Fscan(bytes.NewBufferString(rest), to); !ok || err != nil {
		return fmt.Errorf("no number after %q", words)
	}
	return nil
}
