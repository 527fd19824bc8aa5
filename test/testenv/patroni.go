package testenv

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Patroni holds what the members of one Patroni cluster share: the programs, etcd and a directory. They are
// stopped and removed when the test ends.
type Patroni struct {
	Dir string
	As  []string // prefix of commands that run as the members' user
	Bin string   // directory of PostgreSQL's programs

	// API is further YAML for the restapi section of each member, and for what follows it, such as "\n
	// verify_client: required".
	API string

	etcd string
}

// NewPatroni starts etcd. Without Patroni and etcd the test is skipped, or fails when CI=true.
func NewPatroni(t testing.TB) *Patroni {
	t.Helper()
	return NewPatroniOn(t, "127.0.0.1", nil)
}

// NewPatroniOn starts etcd at an address of another host. in is the prefix of commands that run there, such
// as "ip netns exec".
func NewPatroniOn(t testing.TB, host string, in []string) *Patroni {
	t.Helper()
	NeedsPrograms(t)
	p := &Patroni{Bin: PostgresBin(t)}
	source := filepath.Join(CacheDir(), "patroni-4.1.5")
	if _, err := os.Stat(filepath.Join(source, "complete")); err != nil {
		Missing(t, "Patroni", "run: scripts/servers install patroni")
	}
	etcd := Program(t, "etcd")
	p.Dir, p.As = PostgresDir(t)
	// The members' user can't read this user's cache.
	Run(t, p.Dir, "cp", "-r", source, filepath.Join(p.Dir, "python"))
	p.startEtcd(t, host, append(in[:len(in):len(in)], etcd), in)
	return p
}

func (p *Patroni) startEtcd(t testing.TB, host string, command, in []string) {
	t.Helper()
	var err error
	for range StartTries {
		p.etcd = net.JoinHostPort(host, strconv.Itoa(FreePort(t)))
		peer := "http://" + net.JoinHostPort(host, strconv.Itoa(FreePort(t)))
		var proc *Process
		args := append(command[1:len(command):len(command)], "--name", "one", "--data-dir", filepath.Join(t.TempDir(), "etcd"), "--unsafe-no-fsync",
			"--listen-client-urls", "http://"+p.etcd, "--advertise-client-urls", "http://"+p.etcd,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "one="+peer)
		proc, err = StartProcess(p.Dir, nil, command[0], args...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proc.Kill)
		if err = proc.WaitReady(func() bool { return acceptsOn(in, p.etcd) }); err == nil {
			return
		}
		proc.Kill()
	}
	t.Fatal(err)
}

// acceptsOn reports whether a server listens at an address of another host.
func acceptsOn(in []string, address string) bool {
	if len(in) == 0 {
		return Accepts(address)
	}
	host, port, _ := net.SplitHostPort(address)
	args := append(in[1:len(in):len(in)], "/usr/bin/python3", "-c", "import socket, sys; socket.create_connection((sys.argv[1], sys.argv[2]), 1)", host, port)
	return exec.Command(in[0], args...).Run() == nil
}

// PatroniMember is one PostgreSQL server of a cluster, with its Patroni.
type PatroniMember struct {
	Name, Addr, API string // host:port
	Data            string
	Config          string   // path of the file
	Start, Stop     []string // commands, to be run by Patroni.As

	log, pid string
}

// Member returns the addresses, files and commands of a member. It creates and starts nothing.
func (p *Patroni) Member(t testing.TB, name string) *PatroniMember {
	t.Helper()
	local := func() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(FreePort(t))) }
	return p.MemberAt(t, name, local(), local())
}

// MemberAt returns a member whose server and REST API have addresses of another host.
func (p *Patroni) MemberAt(t testing.TB, name, addr, api string) *PatroniMember {
	t.Helper()
	file := func(extension string) string { return filepath.Join(p.Dir, name+extension) }
	m := &PatroniMember{Name: name, Addr: addr, API: api, Data: file(""), Config: file(".yml"), log: file(".log"), pid: file(".pid")}
	start := fmt.Sprintf("cd %s; PYTHONPATH=%s/python setsid /usr/bin/python3 -m patroni %s >>%s 2>&1 </dev/null & echo $! >%s", p.Dir, p.Dir, m.Config, m.log, m.pid)
	// A process that has ended stays visible as a zombie until its parent reaps it.
	stop := fmt.Sprintf(`p=$(cat %s); kill $p 2>/dev/null; while [ -e /proc/$p ] && ! grep -q '^State:.Z' /proc/$p/status; do sleep 0.1; done`, m.pid)
	m.Start, m.Stop = []string{"sh", "-c", start}, []string{"sh", "-c", stop}
	t.Cleanup(func() {
		m.Kill()
		if text, err := os.ReadFile(m.log); err == nil && t.Failed() {
			t.Logf("Patroni of %s:\n%s", name, text[max(0, len(text)-2<<10):])
		}
	})
	return m
}

// WriteConfig writes a member's configuration file. more is configuration of the whole cluster, such as
// "synchronous_mode: true"; only that of the first member takes effect.
func (p *Patroni) WriteConfig(t testing.TB, m *PatroniMember, more string) {
	t.Helper()
	text := fmt.Sprintf(`scope: orders
name: %s
restapi:
  listen: %s
  connect_address: %s
  authentication: {username: patroni, password: secret}%s
etcd3:
  host: %s
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 5
    %s
    postgresql:
      use_pg_rewind: true
      parameters: {fsync: "off", max_connections: 100}
  initdb: [{encoding: UTF8}, {locale: C}, {auth: trust}, {username: postgres}, no-sync, data-checksums]
  pg_hba: [host all all 127.0.0.1/32 trust, host replication all 127.0.0.1/32 trust, host all all 10.0.0.0/8 trust, host replication all 10.0.0.0/8 trust, local all all trust]
postgresql:
  listen: %s
  connect_address: %s
  data_dir: %s
  bin_dir: %s
  pgpass: %s
  authentication:
    superuser: {username: postgres}
    replication: {username: postgres}
  parameters: {unix_socket_directories: %s}
  basebackup: [{checkpoint: fast}, no-sync]
`, m.Name, m.API, m.API, p.API, p.etcd, more, m.Addr, m.Addr, m.Data, p.Bin, filepath.Join(p.Dir, m.Name+".pgpass"), p.Dir)
	if err := os.WriteFile(m.Config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := os.Chown(m.Config, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Fatal(err)
	}
}

// Launch starts a member and waits until its server accepts connections.
func (p *Patroni) Launch(t testing.TB, m *PatroniMember) {
	t.Helper()
	runAs(t, p.Dir, p.As, m.Start...)
	_, port, err := net.SplitHostPort(m.Addr)
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, m.Name+" runs", func() bool { return exec.Command("pg_isready", "-q", "-h", "127.0.0.1", "-p", port).Run() == nil })
}

// Kill ends Patroni and the server with SIGKILL.
func (m *PatroniMember) Kill() {
	for _, file := range []string{m.pid, filepath.Join(m.Data, "postmaster.pid")} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(text), "\n")
		pid, err := strconv.Atoi(strings.TrimSpace(first))
		if err == nil && pid > 1 && m.owns(pid) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// owns reports whether a process belongs to this member, since process IDs are reused.
func (m *PatroniMember) owns(pid int) bool {
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && (strings.Contains(string(command), m.Config) || strings.Contains(string(command), m.Data))
}
