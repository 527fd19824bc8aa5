package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/proc"
)

// server is a process that listens.
type server struct {
	addr string
	cmd  *exec.Cmd
}

// startServer runs a program and waits until it accepts connections at addr.
func startServer(addr, name string, args ...string) (*server, error) {
	s := &server{addr: addr, cmd: exec.Command(name, args...)}
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 1000 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return s, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("%s does not listen on %s", name, addr)
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// cpu returns the CPU time that the process has used.
func (s *server) cpu() (time.Duration, error) { return proc.CPU(s.cmd.Process.Pid) }

// stored is the number of documents that exist before the measurements. The first half fills the history of a link;
// measured finds and updates use the second half.
const stored = 60_000

func (b *bench) startMongod() error {
	addr, err := rig.FreeAddr()
	if err != nil {
		return err
	}
	_, port, _ := net.SplitHostPort(addr)
	data := filepath.Join(b.work, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	b.mongod, err = startServer(addr, rig.Mongod(), "--port", port, "--bind_ip", "127.0.0.1", "--dbpath", data,
		"--wiredTigerCacheSizeGB", "0.5", "--logpath", filepath.Join(b.work, "mongod.log"), "--networkMessageCompressors", "zstd,snappy,zlib",
		"--setParameter", "diagnosticDataCollectionEnabled=false")
	if err != nil {
		return err
	}
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + addr + "/?directConnection=true"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect(context.Background()) }()
	coll := c.Database("shop").Collection("users")
	if _, err = coll.InsertMany(context.Background(), users(0, stored)); err != nil {
		return err
	}
	_, err = coll.Indexes().CreateOne(context.Background(), mongo.IndexModel{Keys: map[string]int{"seq": 1}})
	return err
}

// startProxy runs a proxy that inspects nothing: bench/forward or HAProxy.
func (b *bench) startProxy(name, upstream string) (*server, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	if name == "haproxy" {
		command, err := rig.HAProxy(b.work, addr, upstream)
		if err != nil {
			return nil, err
		}
		return startServer(addr, command[0], command[1:]...)
	}
	forward := filepath.Join(b.work, "forward")
	if err := rig.Build(forward, "./bench/forward"); err != nil {
		return nil, err
	}
	return startServer(addr, forward, addr, upstream)
}

// startGateway runs cinch serve with one gateway. process and settings are YAML lines of the process and of
// the gateway, in addition to its addresses.
func (b *bench) startGateway(upstream, process, settings string) (*server, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.work, "gateway-")
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("%s\nadmin: {listen: off}\nlog: {level: warn}\ngateways:\n  - name: db\n    protocol: mongo\n    listen: %q\n    upstream: \"mongodb://%s\"\n    %s\n",
		process, addr, upstream, settings)
	config := filepath.Join(dir, "cinch.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return startServer(addr, b.cinch, "serve", "--config", config)
}
