package http

import (
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// refused answers requests that no upstream is to see, and reports whether this is one.
func (h *handler) refused(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodConnect {
		w.Header().Set("Connection", "close") // what follows was meant for a tunnel, and is no request
		http.Error(w, "cinch: CONNECT is for forward proxies, and this gateway has one upstream", http.StatusNotImplemented)
		return true
	}
	if what := malformed(r); what != "" {
		h.cfg.Stats.Error("request")
		http.Error(w, "cinch: the request is not well formed: "+what, http.StatusBadRequest)
		return true
	}
	if h.session.heads.unexplained(r) {
		w.Header().Set("Connection", "close") // RFC 9112, 6.1: length and chunks may be an attempt to smuggle what follows
	}
	return false
}

// malformed says what the server lets pass in HTTP/2 that would be another request in HTTP/1.1; "": nothing.
func malformed(r *http.Request) string {
	switch {
	case r.ProtoMajor < 2:
		return "" // the server has seen to it
	case strings.ContainsFunc(r.Method, isBlank):
		return "its method"
	case strings.ContainsFunc(r.RequestURI, isBlank) || !strings.HasPrefix(r.RequestURI, "/") && r.RequestURI != "*":
		return "its path"
	case !httpguts.ValidHostHeader(r.Host) || strings.ContainsAny(r.Host, "/@"):
		return "its authority"
	}
	for _, length := range r.Header["Content-Length"] {
		if length != strconv.FormatInt(r.ContentLength, 10) {
			return "its length"
		}
	}
	if r.ContentLength == 0 && r.Body != http.NoBody && noMore(r.Body) != nil {
		return "its length" // the reverse proxy would drop the body
	}
	return ""
}

func isBlank(c rune) bool { return c <= ' ' || c == 0x7f }
