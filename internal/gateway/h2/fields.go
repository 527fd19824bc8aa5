package h2

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// What both ends read in headers.

func validMethod(m string) bool {
	for i := range len(m) {
		if !httpguts.IsTokenRune(rune(m[i])) {
			return false
		}
	}
	return true
}

func validPath(p string) bool { return strings.HasPrefix(p, "/") || p == "*" }

// contentLength is -1 where there is none.
func contentLength(values []string) (n int64, ok bool) {
	if len(values) == 0 {
		return -1, true
	}
	for _, v := range values[1:] {
		if v != values[0] {
			return 0, false
		}
	}
	u, err := strconv.ParseUint(values[0], 10, 63)
	return int64(u), err == nil
}

// announced takes from a header what it says of trailers.
func announced(h http.Header) (trailers http.Header) {
	for _, v := range h["Trailer"] {
		for name := range strings.SplitSeq(v, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			switch name {
			case "", "Transfer-Encoding", "Trailer", "Content-Length":
				continue
			}
			if trailers == nil {
				trailers = http.Header{}
			}
			trailers[name] = nil
		}
	}
	delete(h, "Trailer")
	return trailers
}
