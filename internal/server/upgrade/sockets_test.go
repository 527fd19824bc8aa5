package upgrade

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// given returns a socket as a process inherits it.
func given(t *testing.T, network, address string, k socket) *socket {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	k.listener = l
	return &k
}

// shortDir returns a directory for unix sockets, whose paths are limited.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cinch")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// An inherited socket is found by the address that it served, by its name, or by its actual address; each
// only once.
func TestGivenSocketsAreTaken(t *testing.T) {
	served := given(t, "tcp", "127.0.0.1:0", socket{Name: "a", Address: "127.0.0.1:0"})
	named := given(t, "tcp", "127.0.0.1:0", socket{Name: "b", Kept: true})
	there := given(t, "tcp", ":0", socket{Name: "cinch.socket", Kept: true})
	path := filepath.Join(shortDir(t), "s")
	file := given(t, "unix", path, socket{Name: "cinch.socket", Kept: true})
	s := &Sockets{given: []*socket{there, file, named, served}}
	_, port, _ := net.SplitHostPort(there.listener.Addr().String())
	for _, c := range []struct {
		address, name string
		want          *socket
	}{
		{"127.0.0.1:0", "other", served},
		{"127.0.0.1:1", "b", named},
		{"0.0.0.0:" + port, "c", there},
		{"unix:" + path, "d", file},
	} {
		l, err := s.Listen(c.address, c.name)
		if err != nil || l != c.want.listener {
			t.Errorf("%s, %s: %v, %v", c.address, c.name, l, err)
		}
	}
	if s.Given() != 0 || len(s.open()) != 4 {
		t.Error(s.Given(), len(s.open()))
	}
	fresh, err := s.Listen("127.0.0.1:0", "b")
	if err != nil {
		t.Fatal(err)
	}
	_ = fresh.Close()
	if len(s.open()) != 4 {
		t.Error("a closed socket counts as open")
	}
}

// A socket of systemd that a cluster's node has taken by its address has no name. After a replacement only the node's
// address finds it. That of another node, which has no name either, does not.
func TestSocketOfANodeIsNotTakenByAnother(t *testing.T) {
	k := given(t, "tcp", "127.0.0.1:0", socket{Name: "cinch.socket", Kept: true})
	address := k.listener.Addr().String()
	s := &Sockets{given: []*socket{k}}
	if l, err := s.Listen(address, ""); err != nil || l != k.listener {
		t.Fatal(l, err)
	}
	s = &Sockets{given: s.taken} // as the successor inherits it
	other, err := s.Listen("127.0.0.1:0", "")
	if err != nil || other == k.listener {
		t.Fatalf("another node listens at %s: %v", address, err)
	}
	_ = other.Close()
	if l, err := s.Listen(address, ""); err != nil || l != k.listener {
		t.Error(l, err)
	}
}

// An inherited socket whose address has changed in the configuration is not taken by name: its clients use
// the old address.
func TestMovedSocketIsNotTaken(t *testing.T) {
	k := given(t, "tcp", "127.0.0.1:0", socket{Name: "a", Address: "127.0.0.1:6380"})
	node := given(t, "tcp", "127.0.0.1:0", socket{Address: "127.0.0.1:6381"})
	s := &Sockets{given: []*socket{k, node}}
	l, err := s.Listen("127.0.0.1:0", "a")
	if err != nil || l == k.listener {
		t.Fatal(l, err)
	}
	_ = l.Close()
	log := &testenv.Log{}
	s.CloseUnused(log.Logger(), false)
	if log.Count("nothing listens there") != 1 || s.Given() != 1 {
		t.Error("a node's socket may be asked for yet, others not:", log)
	}
	s.CloseUnused(log.Logger(), true)
	if log.Count("nothing listens there") != 2 || s.Given() != 0 {
		t.Error(log)
	}
}

// The file of a unix socket is removed with the last process that listens there; systemd's stays.
func TestSocketFiles(t *testing.T) {
	for _, c := range []struct{ kept, replaced, want bool }{{false, false, false}, {true, false, true}, {false, true, true}} {
		path := filepath.Join(shortDir(t), "s")
		k := given(t, "unix", path, socket{Kept: c.kept})
		k.keepFile(c.replaced)
		_ = k.listener.Close()
		if _, err := os.Stat(path); err == nil != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A process that fails before it serves leaves the files of unix sockets to its predecessor. One that serves
// removes them when it ends.
func TestFilesOfAProcessThatFailsStay(t *testing.T) {
	for _, serves := range []bool{false, true} {
		path := filepath.Join(shortDir(t), "s")
		before := given(t, "unix", path, socket{}).listener.(*net.UnixListener)
		f, err := before.File()
		if err != nil {
			t.Fatal(err)
		}
		k := &socket{Address: "unix:" + path}
		if err := k.adopt(f); err != nil {
			t.Fatal(err)
		}
		s := &Sockets{given: []*socket{k}}
		l, err := s.Listen("unix:"+path, "a")
		if err != nil {
			t.Fatal(err)
		}
		if serves {
			s.Serving()
		}
		_ = l.Close()
		c, err := net.Dial("unix", path)
		if err == nil {
			_ = c.Close()
		}
		if (err == nil) == serves {
			t.Errorf("serves %v: %v", serves, err)
		}
	}
}
