package grpc

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// trailerNames are what a request has announced. The values come with the end of its body.
func trailerNames(r *http.Request) []string { return slices.Collect(maps.Keys(r.Trailer)) }

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
