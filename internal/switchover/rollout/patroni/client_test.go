package patroni

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Responses of Patroni 4.1 are decoded, requests for changes have the password, and a definite refusal
// differs from a switchover that may still happen.
func TestClient(t *testing.T) {
	code, said := http.StatusPreconditionFailed, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch user, password, _ := r.BasicAuth(); {
		case r.URL.Path == "/cluster":
			_, _ = io.WriteString(w, `{"members": [{"name": "a", "role": "leader", "state": "running", "timeline": 2}, {"name": "b", "role": "replica", "state": "streaming",
				"lag": "unknown", "tags": {"nofailover": true}}], "pause": true, "scope": "orders"}`)
		case r.URL.Path == "/config":
			_, _ = io.WriteString(w, `{"loop_wait": 3, "synchronous_mode": "quorum"}`)
		case user != "patroni" || password != "secret":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			body, _ := io.ReadAll(r.Body)
			said = string(body)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "leader name does not match")
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(Access{User: "patroni", PasswordFile: file})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := c.AnyCluster(t.Context(), []string{"http://127.0.0.1:1", server.URL})
	if err != nil || !cluster.Pause || cluster.Leader().Name != "a" || !cluster.Member("b").Up() || cluster.Member("b").Tags["nofailover"] != true || cluster.Member("c").Up() {
		t.Errorf("%+v %v", cluster, err)
	}
	if s, err := c.Settings(t.Context(), server.URL); err != nil || s.LoopWait != 3 || s.OnlySynchronous() {
		t.Errorf("%+v %v", s, err)
	}
	for want, status := range map[bool]int{true: http.StatusPreconditionFailed, false: http.StatusServiceUnavailable} {
		code = status
		var no *Refusal
		if err := c.Switchover(t.Context(), server.URL, "a", "b"); !errors.As(err, &no) || no.Definite() != want || !strings.Contains(err.Error(), "does not match") {
			t.Errorf("%d: %v", status, err)
		}
	}
	if said != `{"candidate":"b","leader":"a"}` {
		t.Error(said)
	}
}
