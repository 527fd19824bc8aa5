package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is the redis-server that this program started and stops.
type server struct {
	addr string
	cmd  *exec.Cmd
}

func startRedis(dir string) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	s := &server{addr: "127.0.0.1:" + port}
	s.cmd = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--daemonize", "no")
	s.cmd.Dir = dir
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	c := s.client()
	defer c.Close()
	for range 500 {
		if c.Ping(context.Background()).Err() == nil {
			return s, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("redis-server does not answer on %s", s.addr)
}

func (s *server) client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1})
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// ticks is how often the kernel counts a second of CPU: sysconf(_SC_CLK_TCK), which is 100
// on every Linux that Go runs on.
const ticks = 100

// cpu is the time, user and system, that the server has used.
func (s *server) cpu() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// The name in the second field may hold anything but ends at the last parenthesis.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticks, err
}
