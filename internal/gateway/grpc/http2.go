package grpc

//lint:file-ignore SA1019 with x/net's transport as with its server: one package, whose stream errors pass from one side to the other.

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// frameBytes is the size of HTTP/2 frames that we read. It is gRPC's own; larger ones
// would make every stream keep other streams waiting for longer.
const frameBytes = 16 << 10

// leastWindow is what HTTP/2 lets a client send on a stream before it has heard of our window. x/net's server resets
// streams that make use of that while its window is smaller.
const leastWindow = 65_535

// connWindow is the window of a connection: as much as all its streams may use, so that a
// stream that nobody reads never stops the others.
func connWindow(window, streams int) int32 {
	return int32(min(int64(window)*int64(streams), math.MaxInt32))
}

// newServer makes what speaks HTTP/2 with one client.
func newServer(base *http.Server, window, streams int) *http2.Server {
	window = max(window, leastWindow)
	s := &http2.Server{
		MaxConcurrentStreams:         uint32(streams),
		MaxReadFrameSize:             frameBytes,
		MaxUploadBufferPerStream:     int32(window),
		MaxUploadBufferPerConnection: connWindow(window, streams),
	}
	_ = http2.ConfigureServer(base, s) // fails on TLS settings, and there are none
	return s
}

// newTransport makes what speaks HTTP/2 with the upstream over any number of connections.
func newTransport(window, streams, headerBytes int) *http2.Transport {
	t1 := &http.Transport{
		DisableCompression: true,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     window,
			MaxReceiveBufferPerConnection: int(connWindow(window, streams)),
			StrictMaxConcurrentRequests:   true,
		},
	}
	t, _ := http2.ConfigureTransports(t1) // fails on a transport that has HTTP/2 already
	t.DisableCompression = true
	t.MaxReadFrameSize = frameBytes
	t.MaxHeaderListSize = uint32(headerBytes)
	return t
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
