package http

import (
	"net/http"
	"strconv"
	"strings"
)

// names are content codings that we read and write, in the order in which we like them; "snappy" is its block format, as
// Prometheus' remote write has it.
var names = [...]string{"zstd", "gzip", "snappy"}

// codings is a set of names: bits by their place there.
type codings uint8

func bitOf(name string) codings {
	if name == "x-gzip" {
		name = "gzip"
	}
	for i, n := range names {
		if n == name {
			return 1 << i
		}
	}
	return 0
}

func (c codings) has(name string) bool { return c&bitOf(name) != 0 }

// best is the one that we like most among them; "" if there is none.
func (c codings) best() string {
	for i, n := range names {
		if c&(1<<i) != 0 {
			return n
		}
	}
	return ""
}

// accepted are those that an Accept-Encoding field names with a weight above 0. "*" names none.
func accepted(h http.Header) (c codings) {
	for _, field := range h["Accept-Encoding"] {
		for item := range strings.SplitSeq(field, ",") {
			name, weight, weighted := strings.Cut(item, ";")
			if weighted && isZero(weight) {
				continue
			}
			c |= bitOf(strings.ToLower(strings.TrimSpace(name)))
		}
	}
	return c
}

// isZero reports whether a weight, "q=0.5", forbids what it stands behind.
func isZero(weight string) bool {
	key, value, _ := strings.Cut(strings.TrimSpace(weight), "=")
	if !strings.EqualFold(strings.TrimSpace(key), "q") {
		return false
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	return err != nil || q <= 0
}

// codingOf is the content coding of a body: "" without one. What has several, or one that we don't read, is not ok.
func codingOf(h http.Header) (name string, ok bool) {
	fields := h["Content-Encoding"]
	if len(fields) == 0 {
		return "", true
	}
	name = strings.ToLower(strings.TrimSpace(fields[0]))
	switch {
	case len(fields) > 1:
		return "", false
	case name == "" || name == "identity":
		return "", true
	case name == "x-gzip":
		name = "gzip"
	}
	return name, bitOf(name) != 0
}
