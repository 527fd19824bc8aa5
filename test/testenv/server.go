package testenv

import (
	"net"
	"strconv"
	"strings"
	"testing"
)

// Server starts a program that serves TCP and returns its address. "PORT" in the arguments
// stands for a free port. The program is stopped when the test ends.
func Server(t testing.TB, name string, args ...string) string {
	t.Helper()
	var err error
	for range StartTries {
		port := strconv.Itoa(FreePort(t))
		own := make([]string, len(args))
		for i, a := range args {
			own[i] = strings.ReplaceAll(a, "PORT", port)
		}
		addr := net.JoinHostPort("127.0.0.1", port)
		if err = startServer(t, addr, name, own); err == nil {
			return addr
		}
	}
	t.Fatalf("%s %v: %v", name, args, err)
	return ""
}

// Serves starts a program that serves TCP at a given address, and waits until it accepts connections.
func Serves(t testing.TB, addr, name string, args ...string) {
	t.Helper()
	if err := startServer(t, addr, name, args); err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
}

func startServer(t testing.TB, addr, name string, args []string) error {
	t.Helper()
	NeedsPrograms(t)
	p, err := StartProcess(t.TempDir(), nil, name, args...)
	if err != nil {
		return err
	}
	if err := p.WaitReady(func() bool { return Accepts(addr) }); err != nil {
		p.Kill()
		return err
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, p.out.String())
		}
	})
	return nil
}
