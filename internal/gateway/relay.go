package gateway

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// relayBufferBytes is the buffer size of Relay.
const relayBufferBytes = 32 << 10

// ErrRelayWrite is wrapped by Relay's error if dst takes no more bytes. There may still be unread bytes from dst.
var ErrRelayWrite = errors.New("the connection takes no more bytes")

// RelayWriteError wraps an error of writing to a connection or of half-closing it with ErrRelayWrite. It returns nil
// and errors.ErrUnsupported unchanged.
func RelayWriteError(err error) error {
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrRelayWrite, err)
}

// Relay copies src to dst until EOF and then closes dst for writing, so that the other direction can go on.
// It returns nil after an EOF. To splice two connections the caller runs one Relay for each direction, and
// closes both connections at the end. While Relay waits for bytes it holds no buffer (see ReadFirst).
func Relay(dst, src net.Conn) error { return RelayFunc(dst, src, nil) }

// RelayFunc is like Relay, and calls show, which may be nil, with each piece b before it is written. b is valid only
// during the call.
func RelayFunc(dst, src net.Conn, show func(b []byte)) error {
	var buf []byte
	for {
		var n int
		var err error
		buf, n, err = ReadNext(src, buf, relayBufferBytes)
		if errors.Is(err, io.EOF) {
			return RelayWriteError(CloseWrite(dst))
		}
		if err != nil {
			return err
		}
		if show != nil {
			show(buf[:n])
		}
		if _, err = dst.Write(buf[:n]); err != nil {
			memory.PutBuffer(buf)
			return RelayWriteError(err)
		}
	}
}
