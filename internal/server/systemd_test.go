package server

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// manager is a fake systemd.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func startManager(t *testing.T) *manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return &manager{t, conn}
}

// hears reads the next message other than WATCHDOG=1, and checks that it has these lines.
func (m *manager) hears(want ...string) {
	m.t.Helper()
	buf := make([]byte, 4096)
	for {
		n, err := m.conn.Read(buf)
		if err != nil {
			m.t.Fatal(err)
		}
		got := string(buf[:n])
		if strings.HasPrefix(got, "WATCHDOG=1") {
			continue
		}
		for _, w := range want {
			if !strings.Contains("\n"+got, "\n"+w) {
				m.t.Errorf("no %q in %q", w, got)
			}
		}
		return
	}
}

// systemd is notified when the process serves, reloads and ends. Meanwhile it gets regular signs of life.
func TestSystemdIsNotified(t *testing.T) {
	m := startManager(t)
	t.Setenv("WATCHDOG_USEC", "20000")
	rules := "[{setting: lz4}]"
	p, _, err := newProcess(t, "127.0.0.1:0", &rules)
	if err != nil {
		t.Fatal(err)
	}
	ctx, drain := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, t.Context()) }()
	m.hears("READY=1\n", "STATUS=serving\n")
	buf := make([]byte, 4096)
	if n, err := m.conn.Read(buf); err != nil || !strings.HasPrefix(string(buf[:n]), "WATCHDOG=1") {
		t.Errorf("%q, %v", buf[:n], err)
	}
	rules = "[{settng: lz4}]"
	p.Reload()
	m.hears("RELOADING=1\n", "MONOTONIC_USEC=")
	m.hears("READY=1\n", "STATUS=serving; the last configuration was refused")
	drain(errors.New("told to"))
	m.hears("STOPPING=1\n", "EXTEND_TIMEOUT_USEC=")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
