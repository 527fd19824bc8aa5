package testenv

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// PostgresNode is a PostgreSQL server with a fixed port that a test may stop, restart and promote.
type PostgresNode struct {
	Addr, Port string
	Data       string // data directory

	bin  string
	as   []string
	dir  string
	more []string
	proc *Process
}

// PostgresConfig changes a node's defaults, which let every client in.
type PostgresConfig struct {
	HBA      string            // pg_hba.conf; "": trust for all
	Settings []string          // name=value
	Files    map[string]string // content by name, in the data directory
}

// NewPostgresNode makes and starts a primary with a superuser "postgres" and the settings that standbys
// need.
func NewPostgresNode(t testing.TB, c PostgresConfig) *PostgresNode {
	t.Helper()
	n := &PostgresNode{bin: postgresBin(t), more: c.Settings}
	n.dir, n.as = sqlDir(t, "postgres")
	n.Data = filepath.Join(n.dir, "data")
	InitPostgres(t, n.bin, n.dir, n.as, n.Data)
	hba := c.HBA
	if hba == "" {
		hba = "host all all all trust\nhost replication all all trust\n"
	}
	n.write(t, "pg_hba.conf", "local all all trust\nlocal replication all trust\n"+hba)
	for name, text := range c.Files {
		n.write(t, name, text)
	}
	n.listen(t)
	n.Start(t)
	return n
}

func (n *PostgresNode) listen(t testing.TB) {
	n.Port = strconv.Itoa(FreePort(t))
	n.Addr = net.JoinHostPort("127.0.0.1", n.Port)
}

// write replaces a file of the data directory and keeps the directory's owner.
func (n *PostgresNode) write(t testing.TB, name, text string) {
	t.Helper()
	file := filepath.Join(n.Data, name)
	info, err := os.Stat(n.Data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(file, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
}

// Start starts the server and waits until it answers. The server is stopped when the test ends.
func (n *PostgresNode) Start(t testing.TB) {
	t.Helper()
	args := append(n.as[:len(n.as):len(n.as)], filepath.Join(n.bin, "postgres"), "-D", n.Data, "-p", n.Port, "-h", "127.0.0.1", "-k", n.dir,
		"-c", "fsync=off", "-c", "max_connections=700", "-c", "hot_standby=on", "-c", "dynamic_shared_memory_type=mmap")
	for _, s := range n.more {
		args = append(args, "-c", s)
	}
	var err error
	if n.proc, err = StartProcess(n.dir, nil, args[0], args[1:]...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.proc.Kill)
	if err := n.proc.WaitReady(func() bool { return n.proc.postgresReady(n.Data) }); err != nil {
		t.Fatal(err)
	}
}

// Stop does a fast shutdown: sessions end, and standbys receive everything that was written.
func (n *PostgresNode) Stop() { n.proc.stop() }

// Kill ends the server with SIGKILL.
func (n *PostgresNode) Kill() { n.proc.Kill() }

// Standby starts a standby that follows n.
func (n *PostgresNode) Standby(t testing.TB) *PostgresNode {
	t.Helper()
	s := &PostgresNode{bin: n.bin, as: n.as, more: n.more}
	s.dir, _ = sqlDir(t, "postgres")
	s.Data = filepath.Join(s.dir, "data")
	runAs(t, s.dir, s.as, filepath.Join(s.bin, "pg_basebackup"), "-D", s.Data, "-R", "-c", "fast", "--no-sync", "-h", n.dir, "-p", n.Port, "-U", "postgres")
	s.listen(t)
	s.Start(t)
	return s
}

// Promote makes a standby a primary and waits until it is one.
func (n *PostgresNode) Promote(t testing.TB) {
	t.Helper()
	runAs(t, n.dir, n.as, filepath.Join(n.bin, "pg_ctl"), "promote", "-w", "-D", n.Data)
}

// SQL runs statements as the superuser over the Unix socket, so that pg_hba.conf's lines for hosts do not
// apply. It returns the rows unaligned and without headers.
func (n *PostgresNode) SQL(t testing.TB, text string) string {
	t.Helper()
	out := Command(t, filepath.Join(n.bin, "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", n.dir, "-p", n.Port, "-U", "postgres", "-d", "postgres", "-c", text)
	return strings.TrimSpace(out)
}

// URL returns a connection URL for the superuser.
func (n *PostgresNode) URL() string { return "postgres://postgres@" + n.Addr + "/postgres" }
