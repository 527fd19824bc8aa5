// Package client is an HTTP client for admin pages of gateways and for Prometheus. Addresses may be abbreviated,
// tokens are read from files, and errors contain no credentials.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// ErrAddress reports an invalid address.
var ErrAddress = errors.New("not the address of a server")

const (
	timeout        = time.Minute // of an answer; estimating messages takes some time
	maxAnswerBytes = 64 << 20
)

// Options configures the access to a server.
type Options struct {
	TokenFile string // read before each request; "": none
	CA        string // PEM file with the CA certificates for the server; "": the system's
	// Patient is for requests that take long on the server: only the context limits the time. Each request uses
	// a new connection: an idle one may have been closed by a restart of the server.
	Patient bool
}

// Server is a server to query. It is safe for concurrent use.
type Server struct {
	name, base, token string
	client            *http.Client
}

// Open returns a Server for an address: 9470, host:9470, unix:/path, http://host:9470 or https://…. It does
// not connect.
func Open(address string, o Options) (*Server, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	s := &Server{token: o.TokenFile, client: &http.Client{Transport: transport, Timeout: timeout}}
	if o.Patient {
		s.client.Timeout, transport.DisableKeepAlives = 0, true
	}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no PEM certificate in the file", o.CA)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", strings.TrimPrefix(path, "//"))
		}
		transport.Proxy = nil
		s.name, s.base = address, "http://localhost"
		return s, nil
	}
	u, err := parse(address)
	if err != nil {
		return nil, err
	}
	s.name, s.base = u.Host, u.String()
	return s, nil
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

// redact removes credentials from an address that does not parse.
func redact(address string) string {
	if at := strings.LastIndexByte(address, '@'); at >= 0 {
		return "…" + address[at:]
	}
	return address
}

// Name returns the address without scheme and credentials.
func (s *Server) Name() string { return s.name }

// Request is a request. The default of Type is JSON.
type Request struct {
	Method, Path string // Path begins with /, and may have a query
	Type         string
	Body         []byte
}

// Do sends a request and passes the answer with any status, and its body up to 64 MiB, to read.
func (s *Server) Do(ctx context.Context, q Request, read func(answer *http.Response, body io.Reader) error) error {
	r, err := http.NewRequestWithContext(ctx, q.Method, s.base+q.Path, bytes.NewReader(q.Body))
	if err != nil {
		return err
	}
	if len(q.Body) > 0 {
		r.Header.Set("Content-Type", cmp.Or(q.Type, "application/json"))
	}
	if s.token != "" {
		token, err := os.ReadFile(s.token)
		if err != nil {
			return fmt.Errorf("the token: %w", err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	answer, err := s.client.Do(r)
	if err != nil {
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err // the outer error contains the URL, which may hold a password
		}
		return err
	}
	defer answer.Body.Close()
	return read(answer, io.LimitReader(answer.Body, maxAnswerBytes))
}
