package testenv

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
)

// SSH starts a real sshd and returns the prefix of commands that run as a user of this machine. It needs
// root, since others can't become another user; without it the test is skipped. Without OpenSSH the test is
// skipped, or fails when CI=true.
func SSH(t testing.TB, name string) []string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("takes root")
	}
	sshd, keygen, ssh := Program(t, "sshd"), Program(t, "ssh-keygen"), Program(t, "ssh")
	if _, err := user.Lookup(name); err != nil {
		Missing(t, "the user "+name, "run: scripts/servers install")
	}
	dir, err := os.MkdirTemp("", "cinch-ssh-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// sshd uses /run/sshd for privilege separation.
	for _, err := range []error{os.Chmod(dir, 0o755), os.MkdirAll("/run/sshd", 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	key, host := filepath.Join(dir, "key"), filepath.Join(dir, "host")
	for _, file := range []string{key, host} {
		Run(t, dir, keygen, "-q", "-t", "ed25519", "-N", "", "-f", file)
	}
	port := startSSHD(t, dir, sshd, host, key+".pub")
	return []string{
		ssh, "-q", "-p", port, "-i", key, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "IdentitiesOnly=yes", name + "@127.0.0.1",
	}
}

// startSSHD starts sshd and returns its port.
func startSSHD(t testing.TB, dir, sshd, host, authorized string) string {
	t.Helper()
	var err error
	for range StartTries {
		port := strconv.Itoa(FreePort(t))
		var p *Process
		p, err = StartProcess(dir, os.Environ(), sshd, "-D", "-e", "-f", "/dev/null", "-p", port, "-h", host,
			"-o", "ListenAddress=127.0.0.1", "-o", "AuthorizedKeysFile="+authorized, "-o", "StrictModes=no", "-o", "PidFile=none", "-o", "MaxStartups=100",
			"-o", "UsePAM=yes") // without PAM, accounts without a password count as locked
		if err == nil {
			err = p.WaitReady(func() bool { return Accepts("127.0.0.1:" + port) })
		}
		if err == nil {
			t.Cleanup(p.stop)
			return port
		}
	}
	t.Fatal(fmt.Errorf("sshd: %w", err))
	return ""
}
