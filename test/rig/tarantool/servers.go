// Package tarantool starts real Tarantool servers, masters and replicas, for the benchmark and the example
// cluster.
package tarantool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/proc"
	"github.com/cinch-layer/cinch/test/rig/tail"
)

// Process is a program that was started and listens.
type Process struct {
	Addr string // 127.0.0.1:port
	cmd  *exec.Cmd
	out  tail.Buffer
	done chan struct{} // closed when the process has ended
}

const maxTailBytes = 64 << 10 // of a process's output

// Launch starts a program and waits until it accepts connections at addr. The program runs only on the given
// core, or on any if core is -1.
func Launch(ctx context.Context, addr string, core int, name string, args ...string) (*Process, error) {
	if core >= 0 {
		name, args = "taskset", append([]string{"-c", strconv.Itoa(core), name}, args...)
	}
	p := &Process{Addr: addr, cmd: exec.CommandContext(ctx, name, args...), out: tail.Buffer{MaxBytes: maxTailBytes}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	for range 1500 {
		if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
			return p, c.Close()
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("%s ended:\n%s", name, p.Output())
		case <-time.After(10 * time.Millisecond):
		}
	}
	p.Stop()
	return nil, fmt.Errorf("%s does not listen on %s:\n%s", name, addr, p.Output())
}

// Output returns the end of the process's output.
func (p *Process) Output() string { return p.out.String() }

// Stop interrupts the process, kills it after ten seconds, and waits until it has exited.
func (p *Process) Stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// CPU returns the user and system time that the process has used.
func (p *Process) CPU() (time.Duration, error) { return proc.CPU(p.cmd.Process.Pid) }

// Peak returns the peak memory of the process, in bytes.
func (p *Process) Peak() (int64, error) { return proc.Peak(p.cmd.Process.Pid) }

// PID returns the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Options describe a Tarantool server.
type Options struct {
	Dir    string // directory for all its files; created if it is missing
	Lua    string // run on a master before it listens, to create spaces
	Master string // address of a read-only replica's master; "": this is a master
	Memory int64  // for tuples, in bytes
	Core   int    // -1: any
}

// Tarantool is a running server. The guest user has all rights.
type Tarantool struct {
	*Process
	Dir string
}

const script = `box.cfg{work_dir = %q, memtx_memory = %d, log_level = 3, wal_mode = 'write', checkpoint_interval = 0,
    replication = %s, read_only = %t, replication_connect_timeout = 20}
if not box.info.ro then
    box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
    %s
end
box.cfg{listen = %q}
require('fiber').create(function() while true do require('fiber').sleep(3600) end end)
`

// Start starts a server.
func Start(ctx context.Context, o Options) (*Tarantool, error) {
	if _, err := exec.LookPath("tarantool"); err != nil {
		return nil, fmt.Errorf("%w: 'scripts/servers install tarantool' installs it", err)
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	replication := "nil"
	if o.Master != "" {
		replication = fmt.Sprintf("{%q}", o.Master)
	}
	file := filepath.Join(o.Dir, "init.lua")
	if err := os.WriteFile(file, fmt.Appendf(nil, script, o.Dir, o.Memory, replication, o.Master != "", o.Lua, addr), 0o600); err != nil {
		return nil, err
	}
	p, err := Launch(ctx, addr, o.Core, "tarantool", file)
	if err != nil {
		return nil, err
	}
	return &Tarantool{p, o.Dir}, nil
}

// Connect connects as guest to a server or a gateway. The caller closes the connection.
func Connect(ctx context.Context, addr string) (*tnt.Connection, error) {
	return tnt.Connect(ctx, tnt.NetDialer{Address: addr}, tnt.Opts{Timeout: time.Minute, Logger: quiet{}})
}

type quiet struct{}

func (quiet) Report(tnt.ConnLogKind, *tnt.Connection, ...any) {}

// Eval runs Lua and decodes its first return value.
func Eval[T any](ctx context.Context, t *Tarantool, lua string, args ...any) (result T, err error) {
	c, err := Connect(ctx, t.Addr)
	if err != nil {
		return result, err
	}
	defer c.Close()
	if args == nil {
		args = []any{}
	}
	var all []T
	if err := c.Do(tnt.NewEvalRequest(lua).Args(args).Context(ctx)).GetTyped(&all); err != nil {
		return result, err
	}
	if len(all) == 0 {
		return result, errors.New("the script returned nothing")
	}
	return all[0], nil
}

// ErrBehind reports that a replica did not catch up in time.
var ErrBehind = errors.New("the replica does not catch up")

// CatchUp waits until the replica has everything that the master had at the time of the call.
func (t *Tarantool) CatchUp(ctx context.Context, master *Tarantool) error {
	type position struct {
		ID  uint32 `msgpack:"id"`
		LSN int64  `msgpack:"lsn"`
	}
	at, err := Eval[position](ctx, master, "return {id = box.info.id, lsn = box.info.lsn}")
	if err != nil {
		return err
	}
	for range 6000 {
		lsn, err := Eval[int64](ctx, t, "return box.info.vclock[...] or 0", at.ID)
		if err != nil {
			return err
		}
		if lsn >= at.LSN {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return ErrBehind
}
