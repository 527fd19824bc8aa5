package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/tail"
)

// server is a PostgreSQL server.
type server struct {
	data, port string
	cmd        *exec.Cmd
	out        tail.Buffer
	ended      chan struct{}
}

// url returns the server's URL for drivers and for cinch.
func (s *server) url() string { return rig.PostgresURL(s.port) }

// serve starts a server, and returns when it answers. It limits the server's WAL, whose size would mask the
// data's.
func (c *cell) serve(ctx context.Context, name, data string) (*server, error) {
	if c.ports[name] == "" {
		addr, err := rig.FreeAddr()
		if err != nil {
			return nil, err
		}
		_, c.ports[name], _ = net.SplitHostPort(addr)
	}
	s := &server{data: data, port: c.ports[name], ended: make(chan struct{})}
	args := append(c.as[:len(c.as):len(c.as)], filepath.Join(rig.PostgresBin(), "postgres"), "-D", data, "-p", s.port, "-h", "127.0.0.1", "-k", c.work)
	for _, setting := range []string{"shared_buffers=64MB", "min_wal_size=32MB", "max_wal_size=64MB", "max_connections=200", "fsync=" + onOff(c.o.fsync)} {
		args = append(args, "-c", setting)
	}
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir = &s.out, &s.out, c.work
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	if err := s.await(ctx); err != nil {
		s.stop()
		return nil, fmt.Errorf("%s: %w\n%s", name, err, s.out.String())
	}
	return s, nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// await waits until a server accepts connections.
func (s *server) await(ctx context.Context) error {
	for {
		c, err := pgx.Connect(ctx, s.url())
		if err == nil {
			return c.Close(ctx)
		}
		select {
		case <-s.ended:
			return errors.New("the server ended before it answered")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// stop stops a server without waiting for its clients.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	<-s.ended
}
