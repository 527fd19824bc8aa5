// Package client runs programs, in any language, that SET and GET values, so that the CPU time of a client is
// that of a process which does nothing else.
//
// A program is started with the port of a server on this machine, its compression mode and a file of values.
// It writes all values under the keys record:0, record:1 and so on, reads and compares them, and prints
// {"ready":true}. Then each line of its input is a step, which it answers with one line:
//
//	set N    N values are written, starting after the last one of the previous set
//	get N    N values are read, likewise; a value that differs ends the client
//
// The answer to both is {"us":CPU time per operation in microseconds}.
package client

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cinch-layer/cinch/test/rig/proc"
)

//go:embed client.py
var python []byte

// Python returns the command of the Python clients, those of Valkey GLIDE and django-redis, to which the
// caller appends their arguments. It writes the script into dir.
func Python(interpreter, dir string) (command []string, err error) {
	script := filepath.Join(dir, "client.py")
	return []string{interpreter, script}, os.WriteFile(script, python, 0o600)
}

// Interpreter returns the Python that `scripts/servers install bench` set up, or else python3.
func Interpreter() string {
	cache, err := os.UserCacheDir()
	path := filepath.Join(cache, "cinch-test", "bench-python", "bin", "python")
	if _, missing := os.Stat(path); err != nil || missing != nil {
		return "python3"
	}
	return path
}

// Process is a running client.
type Process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts a client and waits until it is ready.
func Start(command ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(command[0], command[1:]...)}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	var ready struct{ Ready bool }
	if err := p.answer(&ready); err != nil {
		p.Stop()
		return nil, fmt.Errorf("the client did not become ready: %w", err)
	}
	return p, nil
}

// Ask has the client do a step and decodes its answer.
func (p *Process) Ask(answer any, step string, n int) error {
	if _, err := fmt.Fprintln(p.in, step, n); err != nil {
		return err
	}
	if err := p.answer(answer); err != nil {
		return fmt.Errorf("%s: the client does not answer: %w", step, err)
	}
	return nil
}

// answer reads the client's next line of JSON. It skips other lines, since GLIDE prints some.
func (p *Process) answer(into any) error {
	for {
		line, err := p.out.ReadBytes('\n')
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte(`{"`)) {
			return json.Unmarshal(line, into)
		}
	}
}

// CPU returns the user and system time that the client has used.
func (p *Process) CPU() (time.Duration, error) { return proc.CPU(p.cmd.Process.Pid) }

// Stop ends the client. It may be called again, or on nil.
func (p *Process) Stop() {
	if p == nil || p.in == nil {
		return
	}
	_ = p.in.Close()
	_ = p.cmd.Wait()
	p.in = nil
}

// WriteValues writes a file of values, each after its length in four bytes, little-endian.
func WriteValues(path string, values [][]byte) error {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(v)))
		b = append(b, v...)
	}
	return os.WriteFile(path, b, 0o600)
}

// ReadValues reads a file that WriteValues wrote.
func ReadValues(path string) (values [][]byte, err error) {
	data, err := os.ReadFile(path)
	for len(data) >= 4 {
		n := binary.LittleEndian.Uint32(data)
		data = data[4:]
		if uint64(n) > uint64(len(data)) {
			return nil, fmt.Errorf("%s is truncated within a value", path)
		}
		values, data = append(values, data[:n:n]), data[n:]
	}
	return values, err
}
