package grpc

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// upstreamRequest is the client's request as the upstream gets it: the same path,
// authority and headers, with nothing added. Its body is still missing.
func upstreamRequest(ctx context.Context, r *http.Request, scheme string) *http.Request {
	out := r.WithContext(ctx)
	out.URL = &url.URL{Scheme: scheme, Host: r.Host, Opaque: r.RequestURI}
	if strings.HasPrefix(r.RequestURI, "//") { // else it would be taken for a host
		out.URL.Opaque = "//" + r.Host + r.RequestURI
	}
	out.RequestURI, out.RemoteAddr, out.TLS = "", "", nil
	out.Header = r.Header.Clone()
	out.Body, out.ContentLength, out.Trailer = nil, -1, nil
	if len(out.Header["User-Agent"]) == 0 {
		out.Header["User-Agent"] = []string{""} // else the library names itself
	}
	return out
}

// trailerNames are what a request has announced. The values come with the end of its body.
func trailerNames(r *http.Request) []string { return slices.Collect(maps.Keys(r.Trailer)) }

// omitDefaults keeps the server from adding headers that the upstream did not send: one
// that is there without a value is neither sent nor set.
func omitDefaults(h http.Header) {
	for _, name := range [...]string{"Content-Length", "Content-Type", "Date"} {
		if len(h[name]) == 0 {
			h[name] = nil
		}
	}
}

func copyHeaders(to, from http.Header) {
	for name, values := range from {
		to[name] = values
	}
	omitDefaults(to)
}

// copyTrailers hands on trailers. The prefix is how the server wants those that were not
// announced, which gRPC's never are.
//
// Names that HTTP forbids in trailers get lost; it returns how many.
func copyTrailers(to, from http.Header) (lost int) {
	for name, values := range from {
		if !httpguts.ValidTrailerHeader(name) {
			lost++
			continue
		}
		to[trailerKey(name)] = values
	}
	return lost
}

// trailerKey spares the usual names an allocation.
func trailerKey(name string) string {
	switch name {
	case "Grpc-Status":
		return http.TrailerPrefix + "Grpc-Status"
	case "Grpc-Message":
		return http.TrailerPrefix + "Grpc-Message"
	}
	return http.TrailerPrefix + name
}

// isGRPC reports whether a body consists of gRPC's message frames. gRPC-Web's does not: it
// has trailers among them.
func isGRPC(h http.Header) bool {
	rest, ok := strings.CutPrefix(h.Get("Content-Type"), "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}
