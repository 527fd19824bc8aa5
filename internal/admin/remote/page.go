// Package remote asks the admin pages of running gateways.
package remote

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/admin"
)

// What can be wrong with an answer.
var (
	ErrNotFound = errors.New("the page has no such answer")
	ErrToken    = errors.New("the page wants a token")
	ErrAddress  = errors.New("no address of an admin page")
)

// TokenVariable names the file with the token of an admin page.
const TokenVariable = "CINCH_ADMIN_TOKEN_FILE"

const (
	timeout        = time.Minute // of an answer; estimating messages takes some
	maxAnswerBytes = 64 << 20
)

// Options say how pages are reached.
type Options struct {
	TokenFile string // its admin.token_file, read before each question; "": that of TokenVariable, or none
	CA        string // a PEM file with who may sign the page's certificate; "": the system's
}

// Page is the admin page of one process. It may be used from several goroutines.
type Page struct {
	name, base, token string
	client            *http.Client
}

// Open makes a Page of its address, as people write it: 9470, host:9470, unix:/path, http://host:9470 or https://…. It connects to nobody.
func Open(address string, o Options) (*Page, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	p := &Page{token: cmp.Or(o.TokenFile, os.Getenv(TokenVariable)), client: &http.Client{Transport: transport, Timeout: timeout}}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate in PEM", o.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", strings.TrimPrefix(path, "//"))
		}
		transport.Proxy = nil
		p.name, p.base = address, "http://localhost"
		return p, nil
	}
	u, err := parse(address)
	if err != nil {
		return nil, err
	}
	p.name = u.Host
	p.base = u.String()
	return p, nil
}

func parse(address string) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			host, port = "", address
		}
		if port == "" {
			return nil, fmt.Errorf("%w: %q", ErrAddress, redact(address))
		}
		address = "http://" + net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port)
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("%w: %q", ErrAddress, redact(address))
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%w: %q is neither http:// nor https://", ErrAddress, u.Scheme)
	}
	u.Path, u.RawQuery, u.Fragment = strings.TrimRight(u.Path, "/"), "", ""
	return u, nil
}

// redact leaves credentials out of what does not parse.
func redact(address string) string {
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		return "…" + address[at:]
	}
	return address
}

// Name is the address without scheme and credentials.
func (p *Page) Name() string { return p.name }

// Status is the document of /api/status.
func (p *Page) Status(ctx context.Context) (s admin.Status, err error) {
	return s, p.Get(ctx, "/api/status", func(body io.Reader) error { return json.NewDecoder(body).Decode(&s) })
}

// Get has read take an answer, of which it gets 64 MiB at most. Errors hold no credentials.
func (p *Page) Get(ctx context.Context, path string, read func(io.Reader) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return err
	}
	if p.token != "" {
		token, err := os.ReadFile(p.token)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	answer, err := p.client.Do(r)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the outer one repeats the URL, which may hold a password
		}
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return read(io.LimitReader(answer.Body, maxAnswerBytes))
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusUnauthorized:
		return fmt.Errorf("%w: name its file in %s", ErrToken, TokenVariable)
	}
	return fmt.Errorf("it answers %s", answer.Status)
}
