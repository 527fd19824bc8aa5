package h2

import (
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// pseudos are the pseudo-header fields of a request (RFC 9113, section 8.3.1).
type pseudos struct {
	method, scheme, authority, path string
	has                             [4]bool
}

// pseudoOf reads them, and reports what is wrong: "" for nothing.
func (p *pseudos) read(b *block) string {
	for _, f := range b.fields[:b.pseudo] {
		to, i := &p.method, 0
		switch f.Name {
		case ":method":
		case ":scheme":
			to, i = &p.scheme, 1
		case ":authority":
			to, i = &p.authority, 2
		case ":path":
			to, i = &p.path, 3
		default:
			return "an unknown pseudo-header field"
		}
		if p.has[i] {
			return "a pseudo-header field comes twice"
		}
		p.has[i], *to = true, f.Value
	}
	return p.check()
}

func (p *pseudos) check() string {
	switch {
	case p.method == "" || !validMethod(p.method):
		return ":method"
	case p.method == http.MethodConnect: // section 8.5
		if p.has[1] || p.has[3] || p.authority == "" {
			return "CONNECT"
		}
	case p.scheme != "http" && p.scheme != "https":
		return ":scheme"
	case !validPath(p.path) || p.path == "*" && p.method != http.MethodOptions:
		return ":path"
	}
	if strings.Contains(p.authority, "@") || p.authority != "" && !httpguts.ValidHostHeader(p.authority) {
		return ":authority"
	}
	return ""
}

// head makes a request of its headers. server.mu is held.
func (s *served) head(id uint32, end bool, b *block) error {
	var p pseudos
	if what := p.read(b); what != "" {
		return malformed(id, what)
	}
	s.request = *new(http.Request).WithContext(&s.scope)
	r := &s.request
	r.Method, r.Host, r.RequestURI, r.URL = p.method, p.authority, p.path, &s.url
	r.RemoteAddr, r.TLS = s.server.remote, s.server.tls
	r.Proto, r.ProtoMajor = "HTTP/2.0", 2
	if what := locate(r, &p); what != "" {
		return malformed(id, what)
	}
	r.Header = b.header(&s.server.inNames)
	if what := readHost(r); what != "" {
		return malformed(id, what)
	}
	if what := readLength(r, end); what != "" {
		return malformed(id, what)
	}
	r.Trailer = announced(r.Header)
	if cookies := r.Header["Cookie"]; len(cookies) > 1 { // section 8.2.3
		r.Header["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	s.r = r
	return nil
}

func locate(r *http.Request, p *pseudos) (wrong string) {
	switch {
	case p.method == http.MethodConnect:
		r.URL.Host, r.RequestURI = p.authority, p.authority
	case plainPath(p.path):
		r.URL.Path = p.path
	default:
		u, err := url.ParseRequestURI(p.path)
		if err != nil {
			return ":path"
		}
		r.URL = u
	}
	return ""
}

// plainPath reports whether there is nothing to parse in a path.
func plainPath(p string) bool {
	for i := range len(p) {
		switch c := p[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		case c == '/' && (i == 0 || p[i-1] != '/'):
		default:
			return false
		}
	}
	return strings.HasPrefix(p, "/")
}

// readHost takes :authority and Host for the same (section 8.3.1).
func readHost(r *http.Request) (wrong string) {
	hosts := r.Header["Host"]
	switch {
	case len(hosts) == 0:
		return ""
	case len(hosts) > 1 || r.Host != "" && hosts[0] != r.Host || !httpguts.ValidHostHeader(hosts[0]):
		return "host"
	}
	r.Host = hosts[0]
	delete(r.Header, "Host")
	return ""
}

// readLength sees to it that content-length is one number, and that of a body that has ended (section 8.1.1).
func readLength(r *http.Request, end bool) (wrong string) {
	if r.ContentLength = -1; end {
		r.ContentLength = 0
	}
	n, ok := contentLength(r.Header["Content-Length"])
	switch {
	case !ok || n > 0 && end:
		return "content-length"
	case n >= 0:
		r.ContentLength = n
	}
	return ""
}
