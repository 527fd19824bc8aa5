package replace

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// shortDir returns a directory with a short path, since the length of a Unix socket's path is limited.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cinch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// pingUnix pings over a Unix socket, without retries.
func pingUnix(ctx context.Context, path string) error {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: path, MaxRetries: -1, DisableIdentity: true})
	defer c.Close()
	return c.Ping(ctx).Err()
}

// fails makes the process try to replace itself, and waits until it reports that this failed.
func (s *service) fails() {
	s.t.Helper()
	before := s.count("not replaced, this process continues")
	if err := syscall.Kill(s.pid(), syscall.SIGUSR2); err != nil {
		s.t.Fatal(err)
	}
	testenv.Eventually(s.t, "it is not replaced", func() bool { return s.count("not replaced, this process continues") > before })
}

// A new process that fails to start changes nothing: the Unix socket, its file and connected clients are
// kept. After the cause is fixed the process is replaced, and the last process removes the file.
func TestSuccessorFails(t *testing.T) {
	server := testenv.Redis(t)
	addr, path := freeAddress(t), filepath.Join(shortDir(t), "s")
	gateways := fmt.Sprintf("  - {name: file, protocol: redis, listen: \"unix:%s\", upstream: \"redis://%s\"}\n", path, server.Addr) +
		fmt.Sprintf("  - {name: port, protocol: redis, listen: %q, upstream: \"redis://%s\"}\n", addr, server.Addr)
	s := start(t, gateways, nil)
	good, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	l := newLoad(t)
	addRedis(t, l, addr)
	l.add("a new connection to the file", func(ctx context.Context) error { return pingUnix(ctx, path) })
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(s.config, string(good)+"  - {name: bad}\n") // the new process refuses it
	s.fails()
	l.goesOn()
	if testenv.IsFull() {
		late := "  - {name: late, protocol: redis, listen: %q, upstream: \"redis://%s\"}\n"
		// The new process has already listened on the others when it fails.
		write(s.config, string(good)+fmt.Sprintf(late, taken.Addr(), server.Addr))
		s.fails()
		l.goesOn()
	}
	write(s.config, string(good))
	if testenv.IsFull() {
		program := s.install("#!/bin/sh\nexit 1\n")
		s.fails()
		l.goesOn()
		program()
	}
	s.replace()
	testenv.Eventually(t, "the first process has ended", func() bool { return s.count("msg=stopped") == 1 })
	l.goesOn()
	l.over()
	s.stop()
	if _, err := os.Stat(path); err == nil {
		t.Error("the last process leaves the file")
	}
}

// The ports of a cluster's nodes are handed over too, though the new process finds the nodes only later.
func TestCluster(t *testing.T) {
	nodes := testenv.Cluster(t, 3, 0)
	var hosts []string
	for _, n := range nodes {
		hosts = append(hosts, n.Addr)
	}
	first := testenv.FreePorts(t, 4, "127.0.0.1")
	s := start(t, fmt.Sprintf("  - {name: shards, protocol: redis, listen: \"127.0.0.1:%d\", upstream: \"redis+cluster://%s\", nodes: 3}\n", first, strings.Join(hosts, ",")), nil)
	node := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", first+1+i) }
	for i := range nodes {
		testenv.Eventually(t, "a node's port is served", func() bool { return ping(t.Context(), node(i)) == nil })
	}
	l := newLoad(t)
	for i := range nodes {
		l.add("a new connection to a node", func(ctx context.Context) error { return ping(ctx, node(i)) })
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{fmt.Sprintf("127.0.0.1:%d", first)}})
	t.Cleanup(func() { _ = c.Close() })
	for i := range 3 {
		n := 0
		l.add("SET and GET", func(context.Context) error {
			n++
			key, value := fmt.Sprint(i, " ", n%100), strings.Repeat(fmt.Sprint("value ", n), 50)
			if err := c.Set(context.Background(), key, value, 0).Err(); err != nil {
				return err
			}
			if got, err := c.Get(context.Background(), key).Result(); err != nil || got != value {
				return fmt.Errorf("%q: %w", got, err)
			}
			return nil
		})
	}
	for i := range few() {
		l.goesOn()
		s.replace()
		testenv.Eventually(t, "the old process has ended", func() bool { return s.count("msg=stopped") == i+1 })
	}
	l.goesOn()
	if s.count("nothing listens there") > 0 {
		t.Error("a node's socket was closed")
	}
	t.Logf("%d operations, %d replacements", l.over(), few())
}
