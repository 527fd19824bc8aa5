package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/test/rig"
)

// cell is a primary, two standbys, and the nodes that replace them.
type cell struct {
	o        options
	work     string
	cinch    string // the program, in a place where the servers' user can run it
	progress io.Writer
	as       []string // command prefix that runs a program as the servers' user
	mounts   []string

	old, made [3]*node // the primary is first

	gateway          *process
	listen, admin    string
	token, file      string // token of the gateway's admin page; the cell's configuration
	load, rollingOut *process
}

// node is a server with a filesystem of its own.
type node struct {
	name, port string
	at, data   string // mount point of its filesystem; data directory below it
}

func (n *node) url() string { return rig.PostgresURL(n.port) }

// check returns an error that names a missing privilege or program.
func check() error {
	if os.Geteuid() != 0 {
		return errors.New("root is needed to mount filesystems: sudo go run ./examples/rollout")
	}
	return rig.NeedPrograms(map[string]string{
		"mkfs.btrfs": "btrfs-progs", "compsize": "btrfs-compsize", "mkfs.ext4": "e2fsprogs", "pgbench": "postgresql-client or postgresql-contrib", "setpriv": "util-linux",
		filepath.Join(rig.PostgresBin(), "postgres"): "postgresql", filepath.Join(rig.PostgresBin(), "pg_basebackup"): "postgresql-client",
	})
}

func (c *cell) say(format string, args ...any) { fmt.Fprintf(c.progress, format+"\n", args...) }

// install copies the program to where the servers' user can run it: rollout uses it on each node to predict
// the size of the data.
func (c *cell) install(program string) (err error) {
	if c.as, err = rig.PostgresUser(c.work, c.work); err != nil {
		return err
	}
	if c.cinch = filepath.Join(c.work, "cinch"); program == c.cinch {
		return nil
	}
	text, err := os.ReadFile(program)
	return errors.Join(err, os.WriteFile(c.cinch, text, 0o755))
}

// build starts the primary with data, starts the standbys, and mounts the filesystems that the cell will move
// to.
func (c *cell) build(ctx context.Context) error {
	for i, name := range []string{"a", "b", "c"} {
		c.say("%s: ext4, and btrfs with %s for %s2", name, c.o.options, name)
		var err error
		if c.old[i], err = c.mount(ctx, name, "ext4", "noatime"); err != nil {
			return err
		}
		if c.made[i], err = c.mount(ctx, name+"2", "btrfs", "noatime,"+c.o.options); err != nil {
			return err
		}
	}
	a := c.old[0]
	if err := c.command(ctx, "initdb", "-D", a.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale", "C", "--no-sync"); err != nil {
		return err
	}
	if err := c.configure(a, c.settings()); err != nil {
		return err
	}
	if err := c.start(ctx, a); err != nil {
		return err
	}
	c.say("a: pgbench with scale %d, %d events, and a bank", c.o.scale, c.o.events)
	if err := c.fill(ctx); err != nil {
		return err
	}
	for _, standby := range c.old[1:] {
		if err := c.follow(ctx, a, standby); err != nil {
			return err
		}
	}
	return c.describe()
}

func (c *cell) settings() string {
	fsync := "on"
	if !c.o.fsync {
		fsync = "off"
	}
	return "listen_addresses = '127.0.0.1'\nunix_socket_directories = '" + c.work + "'\nfsync = " + fsync +
		"\nshared_buffers = 64MB\nmin_wal_size = 32MB\nmax_wal_size = 256MB\nmax_connections = 100\nlog_destination = stderr\n"
}

// configure appends settings to a server's configuration.
func (c *cell) configure(n *node, text string) error {
	f, err := os.OpenFile(filepath.Join(n.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%sport = %s\n", text, n.port)
	return errors.Join(err, f.Close())
}

func (c *cell) start(ctx context.Context, n *node) error {
	return c.command(ctx, "pg_ctl", "start", "--wait", "--silent", "-D", n.data, "-l", filepath.Join(c.work, n.name+".log"))
}

// follow creates and starts a standby.
func (c *cell) follow(ctx context.Context, primary, standby *node) error {
	err := c.command(ctx, "pg_basebackup", "-d", primary.url(), "-D", standby.data, "-c", "fast", "-X", "stream", "-R", "-C", "-S", "cinch_"+standby.name, "--no-sync")
	if err != nil {
		return err
	}
	return errors.Join(c.configure(standby, ""), c.start(ctx, standby))
}

// mount makes a filesystem in a file. Its root belongs to the servers' user.
func (c *cell) mount(ctx context.Context, name, kind, options string) (*node, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	n := &node{name: name}
	_, n.port, _ = net.SplitHostPort(addr)
	if n.at, err = rig.Mount(ctx, c.work, name, kind, options); n.at == "" {
		return nil, err
	}
	c.mounts, n.data = append(c.mounts, n.at), filepath.Join(n.at, "data")
	return n, err
}

// command runs one of PostgreSQL's programs as the servers' user.
func (c *cell) command(ctx context.Context, name string, args ...string) error {
	return rig.PostgresCommand(ctx, c.work, c.as, name, args...)
}

// ask connects to a server and calls do with the connection.
func ask(ctx context.Context, url string, do func(db *pgx.Conn) error) error {
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	return do(db)
}

// remove stops the servers and removes all files.
func (c *cell) remove() (err error) {
	for _, p := range []*process{c.rollingOut, c.load, c.gateway} {
		if p != nil {
			p.stop()
		}
	}
	for _, n := range append(c.old[:], c.made[:]...) {
		if n == nil {
			continue
		}
		if _, gone := os.Stat(filepath.Join(n.data, "postmaster.pid")); gone == nil {
			_ = c.command(context.Background(), "pg_ctl", "stop", "--wait", "--silent", "-D", n.data, "-m", "immediate")
		}
	}
	for _, at := range c.mounts {
		err = errors.Join(err, rig.Unmount(at))
	}
	if err != nil { // what is still mounted must not be deleted file by file
		return err
	}
	return os.RemoveAll(c.work)
}
