package gateway

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// A gateway refuses to connect to itself when its upstream has become its own address, for example because the server's
// name was moved to its machine. Another gateway of the process may connect to it. So may the gateway itself when it no
// longer listens there.
func TestNoGatewayConnectsToItself(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0", "unix:" + filepath.Join(t.TempDir(), "s")} {
		l, err := Listen(listen)
		if err != nil {
			if listen == "[::]:0" {
				continue // no IPv6 here
			}
			t.Fatal(err)
		}
		defer l.Close()
		up := endpoint.Upstream{Network: l.Addr().Network(), Address: l.Addr().String()}
		own, other := NewStats("own", "redis"), NewStats("other", "redis")
		if at, ok := l.Addr().(*net.TCPAddr); ok && at.IP.IsUnspecified() {
			_, port, _ := net.SplitHostPort(up.Address)
			up.Address = net.JoinHostPort("localhost", port)
		}
		dial := func(stats *Stats) error {
			c, err := Dial(context.Background(), up, stats)
			if err == nil {
				_ = c.Close()
			}
			return err
		}
		if err := dial(own); err != nil {
			t.Errorf("%s, before it listens there: %v", listen, err)
		}
		ended := own.trackListener(l.Addr())
		if err := dial(own); !errors.Is(err, ErrOwnAddress) || !errors.Is(err, endpoint.ErrUnreachable) {
			t.Errorf("%s: %v", listen, err)
		}
		if err := dial(other); err != nil {
			t.Errorf("%s, by another gateway: %v", listen, err)
		}
		ended()
		if err := dial(own); err != nil {
			t.Errorf("%s, when it listens there no more: %v", listen, err)
		}
	}
}
