package client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// The token is read before each request, an answer of any status is passed to the reader, and a patient
// server has a connection per request.
func TestDo(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Header.Get("Authorization"), r.Header.Get("Content-Type"), body)
	})
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	for patient, want := range map[bool]int64{false: 1, true: 2} {
		connections.Store(0)
		s, err := Open(server.URL, Options{TokenFile: token, Patient: patient})
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"one", "two"} {
			if err := os.WriteFile(token, []byte(secret+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := s.Do(t.Context(), Request{Method: http.MethodPost, Path: "/x", Body: []byte("{}")}, func(answer *http.Response, body io.Reader) error {
				text, err := io.ReadAll(body)
				if got := string(text); answer.StatusCode != http.StatusTeapot || got != "POST Bearer "+secret+" application/json {}" {
					t.Errorf("%d, %q", answer.StatusCode, got)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := connections.Load(); got != want {
			t.Errorf("patient %v: %d connections, want %d", patient, got, want)
		}
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	s, _ := Open(server.URL, Options{TokenFile: token})
	if err := s.Do(t.Context(), Request{Method: http.MethodGet, Path: "/"}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
