package testenv

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// SQLServer is a real PostgreSQL or MariaDB that belongs to one test. No password is needed.
type SQLServer struct {
	Addr string // 127.0.0.1:port
	Port string

	database string // "": postgres

	proc  *Process
	again func() (*Process, error) // starts it again at the same address
	ready func() bool
}

// Postgres starts PostgreSQL from Debian's package, with a database and user "postgres", and settings such
// as "wal_level=logical". Without it the test is skipped, or fails when CI=true.
func Postgres(t testing.TB, settings ...string) *SQLServer {
	t.Helper()
	return startPostgres(t, postgresBin(t), settings)
}

// startPostgres starts the server whose programs are in the directory bin.
func startPostgres(t testing.TB, bin string, settings []string) *SQLServer {
	t.Helper()
	dir, as := sqlDir(t, "postgres")
	data := filepath.Join(dir, "data")
	InitPostgres(t, bin, dir, as, data)
	return startSQL(t, dir, as, func(s *SQLServer) bool { return s.proc.postgresReady(data) }, func(port string) []string {
		args := []string{
			filepath.Join(bin, "postgres"), "-D", data, "-p", port, "-h", "127.0.0.1", "-k", dir, "-c", "fsync=off", "-c", "max_connections=300",
			"-c", "dynamic_shared_memory_type=mmap",
		} // mmap files lie in the data directory and are removed with it, even if the server is killed
		for _, s := range settings {
			args = append(args, "-c", s)
		}
		return args
	})
}

// PostgresBin returns the directory of PostgreSQL's programs, which Debian keeps out of PATH. Without them
// the test is skipped, or fails when CI=true.
func PostgresBin(t testing.TB) string {
	t.Helper()
	NeedsPrograms(t)
	return postgresBin(t)
}

// PostgresDir makes a directory that the server's user owns, for servers that a test starts by itself. as
// is the prefix of commands that run as that user.
func PostgresDir(t testing.TB) (dir string, as []string) {
	t.Helper()
	dir, as = sqlDir(t, "postgres")
	return dir, slices.DeleteFunc(as, func(s string) bool { return s == "--pdeathsig" || s == "KILL" })
}

// URL returns a connection URL for drivers of PostgreSQL.
func (s *SQLServer) URL() string { return "postgres://postgres@" + s.Addr + "/" + s.Database() }

// Database returns the name of the database that URL names.
func (s *SQLServer) Database() string { return cmp.Or(s.database, "postgres") }

// With returns the server with a URL that names another database. It does not create the database. The test
// must not stop the server.
func (s *SQLServer) With(database string) *SQLServer {
	own := *s
	own.database = database
	return &own
}

// Kill ends the server with SIGKILL, which ends its other processes too.
func (s *SQLServer) Kill() { s.proc.Kill() }

// Restart kills the server, as a crash does, and starts it again with the same address and data.
func (s *SQLServer) Restart(t testing.TB) {
	t.Helper()
	s.proc.Kill()
	var err error
	for range StartTries { // its other processes may not have ended yet
		if s.proc, err = s.again(); err != nil {
			t.Fatal(err)
		}
		if err = s.proc.WaitReady(s.ready); err == nil {
			return
		}
		s.proc.Kill()
	}
	t.Fatal(err)
}

// Freeze stops all processes of the server with SIGSTOP until the test ends.
func (s *SQLServer) Freeze(t testing.TB) {
	t.Helper()
	main := s.proc.Pid()
	pids := []int{main}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", main, main))
	for _, field := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
}

// postgresBin returns the directory of PostgreSQL's programs.
func postgresBin(t testing.TB) string {
	if dir := debianPostgres(); dir != "" {
		return dir
	}
	return filepath.Dir(Program(t, "postgres"))
}

// debianPostgres returns the directory of the programs of the newest PostgreSQL among Debian's packages, or
// "".
func debianPostgres() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[len(found)-1])
}

// postgresFirst puts the directory of PostgreSQL's programs at the head of PATH. The programs that Debian
// has in PATH are a script that chooses a version, which takes longer than the program itself.
func postgresFirst() {
	if dir := debianPostgres(); dir != "" {
		_ = os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
}

// MariaDB starts MariaDB with a user "test" that has all privileges. Without MariaDB the test is skipped, or
// fails when CI=true.
func MariaDB(t testing.TB) *SQLServer {
	t.Helper()
	server := Program(t, "mariadbd")
	dir, as := sqlDir(t, "mysql")
	data := filepath.Join(dir, "data")
	runAs(t, dir, as, Program(t, "mariadb-install-db"), "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	grant := filepath.Join(dir, "init.sql")
	// One statement per line.
	text := "CREATE DATABASE IF NOT EXISTS test;\nCREATE USER IF NOT EXISTS test@localhost;\nGRANT ALL ON *.* TO test@localhost;\n"
	if err := os.WriteFile(grant, []byte(text), 0o644); err != nil { //nolint:gosec // the server's user reads it
		t.Fatal(err)
	}
	probe := Program(t, "mariadb")
	ready := func(s *SQLServer) bool {
		return exec.Command(probe, "--no-defaults", "-h", "127.0.0.1", "-P", s.Port, "-u", "test", "-e", "SELECT 1", "test").Run() == nil
	}
	return startSQL(t, dir, as, ready, func(port string) []string {
		return []string{
			server, "--no-defaults", "--datadir=" + data, "--port=" + port, "--bind-address=127.0.0.1",
			"--socket=" + filepath.Join(dir, "sock"), "--pid-file=" + filepath.Join(dir, "pid"), "--init-file=" + grant, "--innodb-flush-log-at-trx-commit=0",
		}
	})
}

// sqlDir makes a directory that the server's user owns, since the servers refuse to run as root. as is the
// prefix of commands that run as that user; it is empty unless the test runs as root.
func sqlDir(t testing.TB, name string) (dir string, as []string) {
	t.Helper()
	NeedsPrograms(t)
	dir = serverDir(t, name)
	if os.Getuid() != 0 {
		return dir, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir, []string{"setpriv", "--reuid", u.Uid, "--regid", u.Gid, "--clear-groups", "--pdeathsig", "KILL"}
}

func runAs(t testing.TB, dir string, as []string, command ...string) {
	t.Helper()
	command = append(as[:len(as):len(as)], command...)
	Run(t, dir, command[0], command[1:]...)
}

// startSQL starts a server on a free port and waits until ready returns true.
func startSQL(t testing.TB, dir string, as []string, ready func(*SQLServer) bool, command func(port string) []string) *SQLServer {
	t.Helper()
	var err error
	for range StartTries {
		s := &SQLServer{Port: strconv.Itoa(FreePort(t))}
		s.Addr = net.JoinHostPort("127.0.0.1", s.Port)
		args := append(as[:len(as):len(as)], command(s.Port)...)
		s.again = func() (*Process, error) { return StartProcess(dir, nil, args[0], args[1:]...) }
		s.ready = func() bool { return ready(s) }
		if s.proc, err = s.again(); err != nil {
			t.Fatal(err)
		}
		if err = s.proc.WaitReady(s.ready); err == nil {
			t.Cleanup(func() { s.proc.Kill() })
			return s
		}
		s.proc.Kill()
	}
	t.Fatal(err)
	return nil
}

// postgresReady reports whether PostgreSQL accepts connections. The server writes this into postmaster.pid,
// which pg_ctl reads too.
func (p *Process) postgresReady(data string) bool {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	return err == nil && len(lines) > 7 && lines[0] == strconv.Itoa(p.cmd.Process.Pid) && strings.HasPrefix(lines[7], "ready")
}
