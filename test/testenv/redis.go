package testenv

import (
	"fmt"
	"net"
	"strconv"
	"testing"
)

// RedisServer is a real redis-server. It belongs to one test.
type RedisServer struct {
	Addr string // 127.0.0.1:port
	Port int
	Dir  string // its working directory, removed after the test

	program string // redis-server
	args    []string
	proc    *Process
}

// Redis starts redis-server without snapshots, on a free port and in a new directory, and waits until it
// answers. args are further arguments, such as "--appendonly", "yes". The server is stopped when the test
// ends. Without redis-server the test is skipped, or fails when CI=true.
func Redis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return startRedis(t, Program(t, "redis-server"), args)
}

func startRedis(t testing.TB, program string, args []string) *RedisServer {
	t.Helper()
	s := &RedisServer{Dir: t.TempDir(), program: program, args: args}
	var err error
	for range StartTries {
		s.Port = FreePort(t)
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port))
		if err = s.start(); err == nil {
			t.Cleanup(func() { s.proc.Kill() })
			return s
		}
	}
	t.Fatalf("redis-server %v: %v", args, err)
	return nil
}

func (s *RedisServer) start() error {
	args := append([]string{
		"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.Dir,
		"--save", "", "--daemonize", "no",
	}, s.args...)
	p, err := StartProcess(s.Dir, nil, s.program, args...)
	if err != nil {
		return err
	}
	if err := p.WaitReady(func() bool { return AnswersPing("tcp", s.Addr) }); err != nil {
		p.Kill()
		return err
	}
	s.proc = p
	return nil
}

// URL returns the server's URL as the gateway's configuration takes it.
func (s *RedisServer) URL() string { return "redis://" + s.Addr }

// Pid returns the process ID of the running server.
func (s *RedisServer) Pid() int { return s.proc.Pid() }

// Kill ends the server with SIGKILL and waits until it has ended. Data that it held only in memory is lost.
func (s *RedisServer) Kill() { s.proc.Kill() }

// Restart starts the server again after Kill, with the same port and directory.
func (s *RedisServer) Restart() error {
	if !s.proc.Ended() {
		return fmt.Errorf("redis-server %s still runs", s.Addr)
	}
	return s.start()
}
