package testenv

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TarantoolServer is a real tarantool. It belongs to one test.
type TarantoolServer struct {
	Addr string // 127.0.0.1:port
	Dir  string // its working directory, removed after the test

	script  string
	program string
	proc    *Process
}

// NewerTarantool is the variable with the path of a Tarantool 3, which no registry has. If it is set, tests
// of what differs between versions use that program too.
const NewerTarantool = "CINCH_TARANTOOL3"

// TarantoolProgram is a server to test with.
type TarantoolProgram struct{ Name, Path string }

// TarantoolPrograms returns Debian's program, and the newer one if NewerTarantool is set.
func TarantoolPrograms(t testing.TB) []TarantoolProgram {
	t.Helper()
	all := []TarantoolProgram{{"packaged", Program(t, "tarantool")}}
	if path := os.Getenv(NewerTarantool); path != "" {
		all = append(all, TarantoolProgram{"newer", path})
	}
	return all
}

// Tarantool starts tarantool on a free port in a new directory and waits until it accepts connections. The
// user guest has all privileges. script is Lua that runs after box.cfg at every start: it creates spaces,
// users and functions (with if_not_exists) and may call box.cfg again. The server is killed when the test
// ends. Without tarantool the test is skipped, or fails when CI=true.
func Tarantool(t testing.TB, script string) *TarantoolServer {
	t.Helper()
	return TarantoolOf(t, Program(t, "tarantool"), script)
}

// TarantoolOf does the same as Tarantool with another program than that of Debian's package.
func TarantoolOf(t testing.TB, program, script string) *TarantoolServer {
	t.Helper()
	s := &TarantoolServer{Dir: t.TempDir(), script: script, program: program}
	var err error
	for range StartTries {
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t)))
		if err = s.start(); err == nil {
			t.Cleanup(func() { s.finish(t) })
			return s
		}
	}
	t.Fatalf("tarantool: %v", err)
	return nil
}

// tarantoolScript is the start script of every server. It listens only after script has run, so that no
// client meets a half-configured server. It then writes a file, because another test's server may have got
// the port.
const tarantoolScript = `box.cfg{work_dir = %[1]q, memtx_memory = 256 * 1024 * 1024, log_level = 4}
if not box.info.ro then
    box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
end
%[2]s
box.cfg{listen = %[3]q}
io.open(%[4]q, 'w'):close()
require('fiber').create(function() while true do require('fiber').sleep(3600) end end)
`

func (s *TarantoolServer) start() error {
	file, listens := filepath.Join(s.Dir, "init.lua"), filepath.Join(s.Dir, "listens")
	if err := os.WriteFile(file, fmt.Appendf(nil, tarantoolScript, s.Dir, s.script, s.Addr, listens), 0o600); err != nil {
		return err
	}
	if err := os.RemoveAll(listens); err != nil {
		return err
	}
	p, err := StartProcess(s.Dir, nil, s.program, file)
	if err != nil {
		return err
	}
	if err := p.WaitReady(func() bool { _, err := os.Stat(listens); return err == nil && greets(s.Addr) }); err != nil {
		p.Kill()
		return err
	}
	s.proc = p
	return nil
}

// greets reports whether a Tarantool greeting is sent at addr.
func greets(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	greeting := make([]byte, 9)
	n, _ := c.Read(greeting)
	return strings.HasPrefix(string(greeting[:n]), "Tarantool")
}

func (s *TarantoolServer) finish(t testing.TB) {
	s.proc.Kill()
	if t.Failed() {
		t.Logf("end of tarantool's log:\n%s", s.proc.Tail(10))
	}
}

// Pid returns the process ID of the running server.
func (s *TarantoolServer) Pid() int { return s.proc.Pid() }

// Kill ends the server with SIGKILL and waits until it has ended. Its write-ahead log stays.
func (s *TarantoolServer) Kill() { s.proc.Kill() }

// Restart starts the server again after Kill, with the same port and directory.
func (s *TarantoolServer) Restart(t testing.TB) error {
	t.Helper()
	if !s.proc.Ended() {
		return fmt.Errorf("tarantool %s still runs", s.Addr)
	}
	return s.start()
}
