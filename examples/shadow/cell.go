package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cinch-layer/cinch/test/rig"
)

// cell holds production, its two copies, and their filesystems.
type cell struct {
	o        options
	work     string
	progress io.Writer
	as       []string // command prefix that runs a program as the servers' user
	mounts   []string

	production, control, test *server
	ports                     map[string]string // by server; new copies reuse the port, as --state requires
	events                    int               // number of production's events
	state                     string            // file with the result of the A/A phase; "": none
}

// check returns an error that names a missing privilege or program.
func check() error {
	if os.Geteuid() != 0 {
		return errors.New("root is needed to mount filesystems: sudo go run ./examples/shadow")
	}
	return rig.NeedPrograms(map[string]string{
		"mkfs.btrfs": "btrfs-progs", "pgbench": "postgresql-client or postgresql-contrib", "setpriv": "util-linux",
		filepath.Join(rig.PostgresBin(), "postgres"): "postgresql", filepath.Join(rig.PostgresBin(), "pg_basebackup"): "postgresql-client",
	})
}

func (c *cell) say(format string, args ...any) { fmt.Fprintf(c.progress, format+"\n", args...) }

// build starts production with data.
func (c *cell) build(ctx context.Context) (err error) {
	if c.as, err = rig.PostgresUser(c.work, c.work); err != nil {
		return err
	}
	c.say("production: pgbench with scale %d, and %d events", c.o.scale, c.o.events)
	if c.production, err = c.create(ctx, filepath.Join(c.work, "production")); err != nil {
		return err
	}
	return c.fill(ctx)
}

// copies starts both copies. The control's filesystem has no options but noatime.
func (c *cell) copies(ctx context.Context, options string) (err error) {
	if c.control, err = c.copy(ctx, "control", "noatime"); err != nil {
		return err
	}
	c.test, err = c.copy(ctx, "test", options)
	return err
}

// drop stops and removes both copies.
func (c *cell) drop() (err error) {
	for _, s := range []**server{&c.control, &c.test} {
		if *s != nil {
			(*s).stop()
			*s = nil
		}
	}
	var left []string
	for _, at := range c.mounts {
		if why := rig.Unmount(at); why != nil {
			err, left = errors.Join(err, why), append(left, at)
			continue
		}
		err = errors.Join(err, os.Remove(at), os.Remove(at+".btrfs"))
	}
	c.mounts = left
	return err
}

// create starts an empty server.
func (c *cell) create(ctx context.Context, data string) (*server, error) {
	if err := c.command(ctx, "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C", "--no-sync"); err != nil {
		return nil, err
	}
	return c.serve(ctx, "production", data)
}

// copy restores a base backup onto a new filesystem and starts a server on it.
func (c *cell) copy(ctx context.Context, name, mount string) (*server, error) {
	c.say("%s: a base backup onto btrfs with %s", name, mount)
	at, err := c.mount(ctx, name, mount)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(at, "data")
	if err := c.command(ctx, "pg_basebackup", "-d", c.production.url(), "-D", data, "-c", "fast", "-X", "stream", "--no-sync"); err != nil {
		return nil, err
	}
	return c.serve(ctx, name, data)
}

// mount makes a btrfs in a file. Its root belongs to the servers' user.
func (c *cell) mount(ctx context.Context, name, options string) (string, error) {
	at, err := rig.Mount(ctx, c.work, name, "btrfs", options)
	if at != "" {
		c.mounts = append(c.mounts, at)
	}
	return at, err
}

// command runs one of PostgreSQL's programs as the servers' user.
func (c *cell) command(ctx context.Context, name string, args ...string) error {
	return rig.PostgresCommand(ctx, c.work, c.as, name, args...)
}

// remove stops the servers and removes all files.
func (c *cell) remove() error {
	if c.production != nil {
		c.production.stop()
	}
	if err := c.drop(); err != nil { // what is still mounted must not be deleted file by file
		return err
	}
	return os.RemoveAll(c.work)
}
