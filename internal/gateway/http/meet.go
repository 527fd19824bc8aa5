package http

import (
	"net"

	xhttp2 "golang.org/x/net/http2"
)

const (
	// clientWindow is how far a client may be ahead of the gateway in the bodies of a connection of HTTP/2, in bytes.
	clientWindow = 1 << 20
	// usualFields is what HTTP/2 counts for ten fields beside their names and values (RFC 9113, section 6.5.2).
	usualFields = 10 * 32
)

// version is the HTTP that a client speaks.
type version uint8

const (
	unsaid version = iota
	http1
	http2
)

// readVersion reads no more than it takes to know whether a client begins with the preface of HTTP/2.
func readVersion(c net.Conn) (version, []byte) {
	preface := make([]byte, len(xhttp2.ClientPreface))
	for n := 0; n < len(preface); {
		more, err := c.Read(preface[n:])
		n += more
		switch {
		case string(preface[:n]) != xhttp2.ClientPreface[:n]:
			return http1, preface[:n]
		case err != nil:
			return unsaid, nil
		}
	}
	return http2, preface
}
