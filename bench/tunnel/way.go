package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
	"github.com/cinch-layer/cinch/test/rig/link"
	"github.com/cinch-layer/cinch/test/rig/proc"
)

// way is a route to a server, over the link alone or through two programs with the link between them.
type way struct {
	addr string // address that the client connects to

	link *link.Links
	ends []*exec.Cmd // near the client and near the server
}

// Ways other than the settings of a pair of gateways.
const (
	direct  = "direct"
	ssh     = "ssh -C"
	stunnel = "stunnel"
)

// program returns the program that must be installed for a way, or "".
func program(name string) string {
	switch name {
	case ssh:
		return "sshd"
	case stunnel:
		return "stunnel"
	}
	return ""
}

// open makes a route to server. The caller closes it.
func (b *bench) open(server, name string, roundTrip time.Duration, mbit int) (*way, error) {
	w := &way{}
	err := b.build(w, server, name, roundTrip, mbit)
	if err != nil {
		w.close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return w, nil
}

func (b *bench) build(w *way, server, name string, roundTrip time.Duration, mbit int) (err error) {
	if name == direct {
		return w.startLink(server, roundTrip, mbit)
	}
	far := map[string]func(*way, string) (string, error){ssh: b.sshd, stunnel: b.stunnelExit}[name]
	near := map[string]func(*way, string) (string, error){stunnel: b.stunnelEntry}[name]
	switch {
	case isGRPC(name):
		far = func(w *way, addr string) (string, error) { return b.grpcGateway(w, addr, "peers: true", "reply", name) }
		near = func(w *way, addr string) (string, error) {
			return b.grpcGateway(w, addr, grpcLinks[name], "request, reply", name)
		}
	case name == ssh:
		near = func(w *way, addr string) (string, error) { return b.sshClient(w, addr, server) }
	case far == nil:
		far = func(w *way, addr string) (string, error) { return b.gateway(w, "tunnel-exit", addr, name) }
		near = func(w *way, addr string) (string, error) { return b.gateway(w, "tunnel", addr, name) }
	}
	exit, err := far(w, server)
	if err != nil {
		return err
	}
	if err := w.startLink(exit, roundTrip, mbit); err != nil {
		return err
	}
	w.addr, err = near(w, w.addr)
	return err
}

func (w *way) startLink(server string, roundTrip time.Duration, mbit int) (err error) {
	if w.link, err = link.Start(roundTrip, float64(mbit), "127.0.0.1:0="+server); err == nil {
		w.addr = w.link.Addrs[0]
	}
	return err
}

// end starts one end of a way and waits until it listens.
func (w *way) end(addr string, command ...string) (string, error) {
	cmd := exec.Command(command[0], command[1:]...)
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return "", err
	}
	w.ends = append(w.ends, cmd)
	for range 500 {
		if c, err := net.Dial("tcp", addr); err == nil {
			return addr, c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", fmt.Errorf("%s does not listen on %s", command[0], addr)
}

func (b *bench) gateway(w *way, protocol, upstream, setting string) (string, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return "", err
	}
	file, err := b.write(protocol+".yaml", fmt.Sprintf(
		"admin: {listen: \"off\"}\ngateways:\n  - {name: t, protocol: %s, listen: %q, upstream: %q, setting: %s}\n", protocol, addr, upstream, setting))
	if err != nil {
		return "", err
	}
	return w.end(addr, filepath.Join(b.dir, "cinch"), "serve", "--config", file)
}

// sshd starts sshd with its own keys, for the current user.
func (b *bench) sshd(w *way, _ string) (string, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return "", err
	}
	for _, key := range []string{"host", "user"} {
		file := filepath.Join(b.dir, key)
		if _, err := os.Stat(file); err == nil {
			continue
		}
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file).CombinedOutput(); err != nil {
			return "", fmt.Errorf("ssh-keygen: %w\n%s", err, out)
		}
	}
	if os.Getuid() == 0 { // sshd requires an empty directory there
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			return "", err
		}
	}
	file, err := b.write("sshd", fmt.Sprintf("ListenAddress %s\nHostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\nCompression yes\n",
		addr, filepath.Join(b.dir, "host"), filepath.Join(b.dir, "user.pub")))
	if err != nil {
		return "", err
	}
	path, err := exec.LookPath("sshd") // sshd must be started with its absolute path
	if err != nil {
		return "", err
	}
	return w.end(addr, path, "-D", "-f", file)
}

func (b *bench) sshClient(w *way, peer, server string) (string, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return "", err
	}
	host, port, _ := net.SplitHostPort(peer)
	return w.end(addr, "ssh", "-F", "none", "-C", "-N", "-i", filepath.Join(b.dir, "user"), "-p", port, "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "BatchMode=yes", "-L", addr+":"+server, host)
}

func (b *bench) stunnelExit(w *way, server string) (string, error) {
	pem := filepath.Join(b.dir, "stunnel.pem")
	if _, err := os.Stat(pem); err != nil {
		out, err := exec.Command("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
			"-subj", "/CN=127.0.0.1", "-keyout", pem, "-out", pem+".crt").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("openssl: %w\n%s", err, out)
		}
	}
	return b.stunnel(w, server, fmt.Sprintf("key = %s\ncert = %s.crt\n", pem, pem))
}

func (b *bench) stunnelEntry(w *way, peer string) (string, error) {
	return b.stunnel(w, peer, "client = yes\n")
}

func (b *bench) stunnel(w *way, to, more string) (string, error) {
	addr, err := rig.FreeAddr()
	if err != nil {
		return "", err
	}
	file, err := b.write(fmt.Sprintf("stunnel%d", len(w.ends)), fmt.Sprintf("foreground = yes\npid =\n[t]\naccept = %s\nconnect = %s\n%s", addr, to, more))
	if err != nil {
		return "", err
	}
	return w.end(addr, "stunnel", file)
}

func (b *bench) write(name, text string) (string, error) {
	file := filepath.Join(b.dir, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// cpu returns the CPU time of both ends, including their living child processes.
func (w *way) cpu() (sum time.Duration) {
	for _, e := range w.ends {
		sum += proc.TreeCPU(e.Process.Pid)
	}
	return sum
}

func (w *way) close() {
	for _, e := range w.ends {
		_ = e.Process.Kill()
		_ = e.Wait()
	}
	if w.link != nil {
		w.link.Stop()
	}
}

// have reports whether a way's program is installed, and logs once if it is not.
func (b *bench) have(name string) bool {
	p := program(name)
	if p == "" {
		return true
	}
	_, err := exec.LookPath(p)
	if err != nil && !b.missed[name] {
		b.missed[name] = true
		log.Printf("%s is skipped: %v", name, err)
	}
	return err == nil
}

// label returns the name of a way in tables.
func label(name string) string {
	if name == direct || isGRPC(name) || program(name) != "" {
		return name
	}
	return "pair, " + name
}
