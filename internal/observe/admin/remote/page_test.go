package remote

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

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
