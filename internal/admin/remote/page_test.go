package remote

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOpen(t *testing.T) {
	for address, want := range map[string]string{
		"9470": "http://127.0.0.1:9470", ":9470": "http://127.0.0.1:9470", "h:9470": "http://h:9470", "[::1]:9470": "http://[::1]:9470",
		"http://h:9470/": "http://h:9470", "https://h/cinch/": "https://h/cinch", "http://u:p@h:1": "http://u:p@h:1",
	} {
		p, err := Open(address, Options{})
		if err != nil || p.base != want {
			t.Errorf("%s: %+v, %v", address, p, err)
		} else if strings.Contains(p.Name(), "u:p") {
			t.Errorf("its name is %s", p.Name())
		}
	}
	for _, address := range []string{"", "x", "ftp://h", "http://", "redis://u:secret@h", "http://u:secret@h:x"} {
		if _, err := Open(address, Options{}); !errors.Is(err, ErrAddress) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestStatus(t *testing.T) {
	dir := t.TempDir()
	token, socket := filepath.Join(dir, "token"), filepath.Join(dir, "s")
	if err := os.WriteFile(token, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer 0123456789abcdef":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/api/status":
			_, _ = w.Write([]byte(`{"version":"v9","gateways":[{"name":"redis"}]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	s := httptest.NewServer(h)
	defer s.Close()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { _ = http.Serve(l, h) }()
	for _, address := range []string{s.URL, "unix:" + socket} {
		p, err := Open(address, Options{TokenFile: token})
		if err != nil {
			t.Fatal(err)
		}
		if st, err := p.Status(t.Context()); err != nil || st.Version != "v9" || st.Gateways[0].Name != "redis" {
			t.Errorf("%s: %+v, %v", address, st, err)
		}
		if err := p.Get(t.Context(), "/api/none", nil); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	}
	t.Setenv(TokenVariable, "")
	p, _ := Open(s.URL, Options{})
	if _, err := p.Status(t.Context()); !errors.Is(err, ErrToken) {
		t.Error(err)
	}
}
