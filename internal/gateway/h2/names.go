package h2

import (
	"net/textproto"
	"strings"
)

// maxNames is how many names a connection keeps the other form of.
const maxNames = 100

// common are names that any connection has.
var common = [...]string{
	"accept", "accept-encoding", "accept-language", "authorization", "cache-control", "content-encoding", "content-length",
	"content-type", "cookie", "date", "grpc-accept-encoding", "grpc-encoding", "grpc-message", "grpc-message-type",
	"grpc-previous-rpc-attempts", "grpc-status", "grpc-status-details-bin", "grpc-timeout", "grpc-trace-bin", "server", "set-cookie",
	"te", "traceparent", "tracestate", "trailer", "user-agent", "vary", "via", "x-forwarded-for", "x-request-id",
}

var commonCanonical, commonLower = func() (map[string]string, map[string]string) {
	canonical, lower := map[string]string{}, map[string]string{}
	for _, name := range common {
		c := textproto.CanonicalMIMEHeaderKey(name)
		canonical[name], lower[c] = c, name
	}
	return canonical, lower
}()

// names turns names of fields into their other form, without allocations for those that it has met.
type names map[string]string

// canonical is the form of http.Header.
func (n *names) canonical(lower string) string {
	if c, ok := commonCanonical[lower]; ok {
		return c
	}
	return n.keep(lower, textproto.CanonicalMIMEHeaderKey)
}

// lower is the form of HTTP/2 (RFC 9113, section 8.2).
func (n *names) lower(canonical string) string {
	if l, ok := commonLower[canonical]; ok {
		return l
	}
	return n.keep(canonical, strings.ToLower)
}

func (n *names) keep(name string, convert func(string) string) string {
	if other, ok := (*n)[name]; ok {
		return other
	}
	other := convert(name)
	if *n == nil {
		*n = names{}
	}
	if len(*n) < maxNames && len(name) < 64 {
		(*n)[strings.Clone(name)] = other
	}
	return other
}
