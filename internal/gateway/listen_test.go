package gateway

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cinch.sock")
	l, err := Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o660 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	h := startServerOn(t, &Server{}, l)
	up, err := endpoint.ParseUpstream("unix://"+path, "")
	if err != nil {
		t.Fatal(err)
	}
	stats := NewStats("other", "line")
	c, err := Dial(t.Context(), up, stats)
	if err != nil {
		t.Fatal(err)
	}
	newTestClient(t, c).echo("hello")
	for name, counted := range map[string]func() Traffic{
		"server": func() Traffic { return h.Stats.Snapshot().Wire.Client },
		"dialer": func() Traffic { return stats.Snapshot().Wire.Upstream },
	} {
		// the peer may have the bytes before they are counted
		testenv.Eventually(t, name+" counts six bytes each way", func() bool { return counted() == (Traffic{6, 6}) })
	}
	if _, err := Listen("unix:" + path); !errors.Is(err, ErrAddressInUse) {
		t.Errorf("a second listener: %v", err)
	}
	if err := h.Shutdown(shutdownContext(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestStaleUnixSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cinch.sock")
	dead, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	dead.Close()
	l, err := Listen("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestOtherFilesAreNeverRemoved(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	if err := os.WriteFile(file, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link, dir, filepath.Join(dir, "no", "such")} {
		if l, err := Listen("unix:" + path); err == nil {
			l.Close()
			t.Errorf("listening on %s", path)
		}
	}
	if got, err := os.ReadFile(link); err != nil || string(got) != "data" {
		t.Errorf("the file holds %q, %v", got, err)
	}
}
