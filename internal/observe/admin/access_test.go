package admin

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

const secret = "0123456789abcdef0123"

func tokenFile(t *testing.T, text string) (file string, token *Token) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token, err := ReadToken(file, (&testenv.Log{}).Logger())
	if err != nil {
		t.Fatal(err)
	}
	return file, token
}

// request sends a request to a server with these options.
func request(t *testing.T, o Options, method, url string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, url, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	New(o).Handler().ServeHTTP(w, r)
	return w
}

// DNS rebinding: a page of another site whose name resolves to this machine can read nothing.
func TestHostsOfOthers(t *testing.T) {
	o := sampleOptions(t)
	o.PProf = true
	o.Access = Access{Open: true, Hosts: []string{"cinch.example"}}
	o.Ready = func(ReadyQuery) ([]string, error) { return nil, errors.New("redis.secret:6379 is away") }
	for host, want := range map[string]int{
		"evil.example": 421, "evil.example:9470": 421, "localhost.evil.example": 421, "": 421,
		"localhost:9470": 200, "LOCALHOST": 200, "a.localhost": 200, "127.0.0.1:9470": 200, "[::1]:9470": 200, "10.1.2.3": 200, "cinch.example:80": 200,
	} {
		for _, path := range []string{"/", "/api/status", "/metrics", "/debug/pprof/"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			New(o).Handler().ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s at %s: %d", path, host, w.Code)
			}
		}
	}
	if w := request(t, o, "GET", "http://evil.example/readyz"); w.Code != 503 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("a probe hears %d %s", w.Code, w.Body)
	}
	if w := request(t, o, "GET", "http://localhost/readyz"); w.Code != 503 || !strings.Contains(w.Body.String(), "secret") {
		t.Errorf("a client with read access gets %d %s", w.Code, w.Body)
	}
	o.Access.Local = true
	if w := request(t, o, "GET", "http://anything/api/status"); w.Code != 200 {
		t.Errorf("a unix socket: %d", w.Code)
	}
}

// On non-loopback addresses reading takes a token; probes get a single word.
func TestToken(t *testing.T) {
	file, token := tokenFile(t, secret)
	o := sampleOptions(t)
	o.PProf = true
	o.Access = Access{Token: token}
	notes := []string{"shard 10.0.0.9 is away"}
	o.Ready = func(ReadyQuery) ([]string, error) { return notes, nil }
	for _, path := range []string{"/", "/page.js", "/api/status", "/metrics", "/debug/pprof/", "/nothing"} {
		if w := request(t, o, "GET", "http://localhost"+path); w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s without a token: %d", path, w.Code)
		}
	}
	for header, want := range map[string]int{
		"Bearer " + secret: 200, "bearer  " + secret: 200, "Bearer " + secret[1:]: 401, "Bearer": 401, "Bearer ": 401, "Basic x": 401, secret: 401,
	} {
		if w := request(t, o, "GET", "http://cinch.internal:9470/metrics", "Authorization", header); w.Code != want {
			t.Errorf("%q: %d", header, w.Code)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.SetBasicAuth("me", secret)
	w := httptest.NewRecorder()
	if New(o).Handler().ServeHTTP(w, r); w.Code != 200 {
		t.Errorf("a browser: %d", w.Code)
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ok\n"} {
		if w := request(t, o, "GET", "http://10.0.0.1"+path); w.Code != 200 || w.Body.String() != want {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
		if w := request(t, o, "POST", "http://10.0.0.1"+path); w.Code != 401 {
			t.Errorf("POST %s: %d", path, w.Code)
		}
	}
	if w := request(t, o, "GET", "http://10.0.0.1/readyz", "Authorization", "Bearer "+secret); !strings.Contains(w.Body.String(), "10.0.0.9") {
		t.Errorf("a client with the token gets %s", w.Body)
	}

	other := strings.Repeat("x", 20)
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Chtimes(file, time.Now(), time.Now().Add(time.Minute))
	token.checkedAt = time.Time{}
	if !token.matches(other) || token.matches(secret) {
		t.Error("a new token is not in force")
	}
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = os.Chtimes(file, time.Now(), time.Now().Add(2*time.Minute))
	token.checkedAt = time.Time{}
	if !token.matches(other) || token.matches("short") {
		t.Error("a token that could be guessed is in force")
	}
	if _, err := ReadToken(file, nil); !errors.Is(err, errShortToken) {
		t.Errorf("a short token: %v", err)
	}
	var none *Token
	if none.matches("") {
		t.Error("no token is one")
	}
}

// Actions take credentials on loopback too, and must come from the admin page.
func TestActions(t *testing.T) {
	_, token := tokenFile(t, secret)
	o := sampleOptions(t)
	log := &testenv.Log{}
	ran := 0
	o.Log = log.Logger()
	o.Access = Access{Open: true, Token: token}
	o.Actions = []Action{
		{Name: "pause", Run: func() error { ran++; return nil }},
		{Name: "fail", Run: func() error { return errors.New("no packer") }},
		{Name: "gateway/ask", Do: func(_ context.Context, posted []byte) (any, error) { ran += len(posted); return "answer", nil }},
		{Name: "gateway/refuse", Do: func(context.Context, []byte) (any, error) { return nil, errors.New("not now") }},
	}
	const url = "http://localhost:9470/api/actions/"
	with := []string{"Authorization", "Bearer " + secret}
	for _, c := range []struct {
		name, method, path string
		header             []string
		want, runs         int
	}{
		{"nobody", "POST", "pause", nil, 401, 0},
		{"a GET", "GET", "pause", with, 405, 0},
		{"with the token", "POST", "pause", with, 204, 1},
		{"of our page", "POST", "pause", append(with, "Origin", "http://localhost:9470", "Sec-Fetch-Site", "same-origin"), 204, 1},
		{"of another page", "POST", "pause", append(with, "Origin", "http://evil.example"), 403, 0},
		{"of another port", "POST", "pause", append(with, "Origin", "http://localhost:1"), 403, 0},
		{"of a sandbox", "POST", "pause", append(with, "Origin", "null"), 403, 0},
		{"of a form", "POST", "pause", append(with, "Sec-Fetch-Site", "cross-site"), 403, 0},
		{"that fails", "POST", "fail", with, 409, 0},
		{"unknown", "POST", "stop", with, 404, 0},
		{"no credentials", "POST", "gateway/ask", nil, 401, 0},
		{"with an answer", "POST", "gateway/ask", with, 200, 0},
		{"with a refusal", "POST", "gateway/refuse", with, 409, 0},
	} {
		ran = 0
		if w := request(t, o, c.method, url+c.path, c.header...); w.Code != c.want || ran != c.runs {
			t.Errorf("%s: %d, ran %d times", c.name, w.Code, ran)
		}
	}
	if log.Count("msg=action ") != 5 || log.Count("another site") != 4 {
		t.Errorf("the log says\n%s", log)
	}
}

// AccessOn tells which listeners are open to all users of the machine.
func TestAccessOn(t *testing.T) {
	for addr, open := range map[string]bool{"127.0.0.1:0": true, "[::1]:0": true, "0.0.0.0:0": false, ":0": false} {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Log(err) // no IPv6 here
			continue
		}
		if a := AccessOn(l.Addr(), nil, nil); a.Open != open || a.Local {
			t.Errorf("%s: %+v", addr, a)
		}
		_ = l.Close()
	}
	if a := AccessOn(&net.UnixAddr{Name: "/x", Net: "unix"}, nil, nil); !a.Open || !a.Local {
		t.Errorf("%+v", a)
	}
}
