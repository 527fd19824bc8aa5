package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/observe/admin"
	"github.com/cinch-layer/cinch/internal/server/upgrade"
	"github.com/cinch-layer/cinch/test/testenv"
)

// startAdmin serves a configured admin page, and returns its port.
func startAdmin(t *testing.T, section string) (port string, log *testenv.Log) {
	t.Helper()
	text := section + "\ngateways: [{name: a, protocol: redis, listen: 127.0.0.1:1, upstream: redis://db, rules: [{setting: zstd-3}]}]\n"
	cfg, err := config.Parse("", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	log = &testenv.Log{}
	p := &Process{options: &Options{Sockets: &upgrade.Sockets{}}, started: cfg, log: log.Logger()}
	if p.access, err = readAdminAccess(cfg, p.log); err != nil {
		t.Fatal(err)
	}
	page, err := p.listenAdmin()
	if err != nil {
		t.Fatal(err)
	}
	s := admin.New(admin.Options{Metrics: &gateway.Metrics{}, Access: page.access, Log: log.Logger()})
	go func() { _ = s.Serve(page.listener) }()
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	_, port, _ = net.SplitHostPort(page.listener.Addr().String())
	return port, log
}

func ask(t *testing.T, client *http.Client, url string, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// An address that other machines reach shows nothing without a token or a client certificate; probes are
// answered.
func TestAdminOffLoopback(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a token of some length\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := testenv.NewAuthority(t)
	own, theirs := a.Issue(t, "admin"), a.Issue(t, "prometheus")
	stranger := testenv.NewAuthority(t).Issue(t, "stranger")
	secure := func(show ...testenv.Issued) *http.Client {
		c := &tls.Config{RootCAs: a.Pool}
		for _, i := range show {
			c.Certificates = i.TLS(t).Certificates
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: c}}
	}

	bare, log := startAdmin(t, "admin: {listen: 0.0.0.0:0}")
	if log.Count("only answers health probes") != 1 {
		t.Errorf("the log says %s", log)
	}
	locked, _ := startAdmin(t, fmt.Sprintf("admin: {listen: 0.0.0.0:0, token_file: %q}", token))
	mutual, _ := startAdmin(t, fmt.Sprintf("admin: {listen: 0.0.0.0:0, tls: {cert: %q, key: %q, client_ca: %q}}", own.Cert, own.Key, a.File))
	local, _ := startAdmin(t, "admin: {listen: 127.0.0.1:0}")
	for _, c := range []struct {
		name, url, token string
		client           *http.Client
		want             int
	}{
		{"no token configured", "http://127.0.0.1:" + bare, "", http.DefaultClient, 401},
		{"no token", "http://127.0.0.1:" + locked, "", http.DefaultClient, 401},
		{"wrong token", "http://127.0.0.1:" + locked, "a token of some lengtH", http.DefaultClient, 401},
		{"token", "http://127.0.0.1:" + locked, "a token of some length", http.DefaultClient, 200},
		{"no certificate", "https://127.0.0.1:" + mutual, "", secure(), 401},
		{"certificate", "https://127.0.0.1:" + mutual, "", secure(theirs), 200},
		{"loopback", "http://127.0.0.1:" + local, "", http.DefaultClient, 200},
	} {
		if status, body := ask(t, c.client, c.url+"/api/status", c.token); status != c.want {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
		if status, body := ask(t, c.client, c.url+"/readyz", c.token); status != 200 || strings.TrimSpace(body) != "ok" {
			t.Errorf("%s: a probe hears %d %s", c.name, status, body)
		}
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://127.0.0.1:"+mutual+"/api/status", nil)
	if resp, err := secure(stranger).Do(r); err == nil {
		_ = resp.Body.Close()
		t.Errorf("another authority's certificate: %d", resp.StatusCode)
	}
}

// A guessable or missing token prevents the start.
func TestAdminTokenThatCannotBe(t *testing.T) {
	short := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(short, []byte("guess me\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{short, short + ".missing"} {
		cfg := config.Default()
		cfg.Admin = config.Admin{Listen: "127.0.0.1:0", TokenFile: file}
		var invalid *config.Error
		if _, err := readAdminAccess(cfg, (&testenv.Log{}).Logger()); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
