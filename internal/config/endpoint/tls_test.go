package endpoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// issue writes NAME.pem and NAME.key and returns the certificate's serial.
func issue(t *testing.T, ca *testenv.Authority, name string) (files TLSFiles, serial int64) {
	t.Helper()
	i := ca.Issue(t, name)
	return TLSFiles{Cert: i.Cert, Key: i.Key}, i.Serial
}

func TestReloaderKeepsTheLastGoodState(t *testing.T) {
	ca := testenv.NewAuthority(t)
	files, first := issue(t, ca, "server")
	r := newReloader(nil, files.loadClient, files.Cert, files.Key)
	r.every = 0
	if _, err := r.loadFirst(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files.Cert, []byte("half a certif"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.current().Leaf.SerialNumber.Int64(); got != first {
		t.Errorf("serial %d, want %d", got, first)
	}
	_, second := issue(t, ca, "server")
	if got := r.current().Leaf.SerialNumber.Int64(); got != second {
		t.Errorf("serial %d after the repair, want %d", got, second)
	}
	if a, b := r.current(), r.current(); a != b {
		t.Error("loaded again without a change")
	}
}

func TestTLSFilesErrors(t *testing.T) {
	ca := testenv.NewAuthority(t)
	files, _ := issue(t, ca, "server")
	other, _ := issue(t, ca, "other")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]TLSFiles{
		"no certificate": {},
		"wrong key":      {Cert: files.Cert, Key: other.Key},
		"missing file":   {Cert: files.Cert + "x", Key: files.Key},
		"empty CA":       {Cert: files.Cert, Key: files.Key, ClientCA: empty},
	} {
		if _, err := f.ServerConfig(); err == nil {
			t.Errorf("server, %s: no error", name)
		}
	}
	for name, f := range map[string]TLSFiles{
		"key without certificate": {Key: files.Key},
		"wrong key":               {Cert: files.Cert, Key: other.Key},
		"empty CA":                {CA: empty},
	} {
		if _, err := f.ClientConfig(); err == nil {
			t.Errorf("client, %s: no error", name)
		}
	}
}
