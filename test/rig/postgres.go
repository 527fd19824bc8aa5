package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"time"
)

// Postgres starts an empty PostgreSQL server under work; its user "postgres" needs no password. PostgreSQL
// refuses to run as root, so root starts it as the system user postgres, which needs access to work.
func Postgres(work string) (*Process, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(work, "postgres-")
	if err != nil {
		return nil, err
	}
	as, err := PostgresUser(work, dir)
	if err != nil {
		return nil, err
	}
	bin, data := PostgresBin(), filepath.Join(dir, "data")
	initdb := append(as[:len(as):len(as)], filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")
	if out, err := exec.Command(initdb[0], initdb[1:]...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	_, port, _ := net.SplitHostPort(addr)
	server := append(as, filepath.Join(bin, "postgres"), "-D", data, "-p", port, "-h", "127.0.0.1", "-k", dir, "-c", "fsync=off")
	p := &Process{name: "postgres", Addr: addr, cmd: exec.Command(server[0], server[1:]...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for range 300 {
		if exec.Command("pg_isready", "-q", "-h", "127.0.0.1", "-p", port).Run() == nil {
			return p, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.Stop()
	return nil, fmt.Errorf("postgres does not answer on %s:\n%s", addr, p.Output())
}

// Port returns the port that the process listens on.
func (p *Process) Port() string {
	_, port, _ := net.SplitHostPort(p.Addr)
	return port
}

// PostgresBin returns Debian's directory of the server's programs, which is not in PATH, or "" if it does not
// exist.
func PostgresBin() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// PostgresUser, if run as root, gives dir to the user postgres, and returns the command prefix that runs a
// program as that user.
func PostgresUser(work, dir string) (as []string, err error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chmod(work, 0o711); err != nil {
		return nil, err
	}
	return []string{"setpriv", "--reuid", u.Uid, "--regid", u.Gid, "--clear-groups"}, os.Chown(dir, uid, gid)
}

// PostgresCommand runs one of PostgreSQL's programs in work, with the command prefix that PostgresUser
// returned.
func PostgresCommand(ctx context.Context, work string, as []string, name string, args ...string) error {
	all := append(as[:len(as):len(as)], append([]string{filepath.Join(PostgresBin(), name)}, args...)...)
	cmd := exec.CommandContext(ctx, all[0], all[1:]...)
	cmd.Dir = work
	cmd.WaitDelay = time.Second // a server that was started may keep the output open
	return Output(cmd)
}

// PostgresURL returns the URL of a server on this machine, for drivers and for cinch.
func PostgresURL(port string) string {
	return "postgres://postgres@127.0.0.1:" + port + "/postgres?sslmode=disable"
}
