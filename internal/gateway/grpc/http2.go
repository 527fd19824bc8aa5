package grpc

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// leastWindow is what HTTP/2 lets a client send on a stream before it has heard of our window. h2's server gives no less.
const leastWindow = 65_535

// connWindow is the window of a connection: as much as all its streams may use, so that a
// stream that nobody reads never stops the others.
func connWindow(window, streams int) int {
	return int(min(int64(window)*int64(streams), math.MaxInt32))
}

var errNoHTTP2 = errors.New("the upstream does not speak HTTP/2 (no h2 in its TLS)")

// checkHTTP2 looks whether a server agreed to HTTP/2, where TLS asks for it.
func checkHTTP2(c net.Conn) error {
	t, ok := c.(*tls.Conn)
	if ok && t.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		return fmt.Errorf("%w: %w", gateway.ErrUnreachable, errNoHTTP2)
	}
	return nil
}
