package limits

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// peakOfTunnel returns the limit that docs/TUNNEL.md promises: a budget, the history of all streams, and
// the buffers of stalled connections, in bytes.
func peakOfTunnel(budget, history, connections int) int64 {
	return int64(budget+budget/4+history+connections*(96<<10)) + 96*mb
}

// narrow makes socket buffers small, so that the kernel does not hold megabytes per connection.
func narrow(_, _ string, raw syscall.RawConn) error {
	return raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1400)
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 16<<10)
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 16<<10)
	})
}

func dialNarrow(addr string) (net.Conn, error) {
	d := net.Dialer{Control: narrow}
	return d.Dial("tcp", addr)
}

// serveNarrow calls handle for each connection. handle owns it.
func serveNarrow(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	lc := net.ListenConfig{Control: narrow}
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testenv.AcceptEach(t, l, handle)
	return l.Addr().String()
}

// saidByBoth holds the bytes that each side of a connection sends and receives before it floods the other.
var saidByBoth = bytes.Repeat([]byte("what both ends remember of each other, "), 1000)

// converse sends saidByBoth and receives it.
func converse(c net.Conn) error {
	said := make(chan error, 1)
	go func() {
		_, err := c.Write(saidByBoth)
		said <- err
	}()
	_, err := io.ReadFull(c, make([]byte, len(saidByBoth)))
	return errors.Join(err, <-said)
}

// flood writes noise and reads nothing, until no byte could be written for a second.
func flood(c net.Conn, seed uint64) error {
	rng, noise := rand.New(rand.NewPCG(seed, 1)), make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for {
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := c.Write(noise); n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		} else if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// Connections through a pair fill their history and then stall in both directions with as many bytes in
// flight as fit. Neither process uses more memory than documented, and other connections are not affected.
func TestPeakOfATunnel(t *testing.T) {
	t.Parallel()
	const budget, history = 8, 8
	connections := codectest.Amount(60, 60, 2000)
	over := make(chan struct{})
	upstream := serveNarrow(t, func(c net.Conn) {
		defer c.Close()
		if converse(c) == nil && flood(c, 1) == nil {
			<-over
		}
	})
	t.Cleanup(func() { close(over) })
	args, settings := []string{"--memory", fmt.Sprintf("%dMiB", budget)}, fmt.Sprintf("history: %dMiB", history)
	exit := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "tunnel-exit", Upstream: "tcp://" + upstream, Settings: settings, Args: args})
	between := serveNarrow(t, func(c net.Conn) {
		defer c.Close()
		up, err := dialNarrow(exit.Addr)
		if err != nil {
			return
		}
		defer up.Close()
		go func() { <-over; _ = c.Close(); _ = up.Close() }()
		go func() { _, _ = io.Copy(up, c); _ = up.Close() }()
		_, _ = io.Copy(c, up)
	})
	entry := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "tunnel", Upstream: "tcp://" + between, Settings: settings, Args: args})
	conns := make([]net.Conn, connections)
	var comings, floods errgroup.Group
	comings.SetLimit(50) // on a busy machine, 2,000 handshakes at once would exceed their timeout
	for i := range conns {
		comings.Go(func() error {
			c, err := dialNarrow(entry.Addr)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = c.Close() })
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Minute))
			conns[i] = c
			return converse(c)
		})
	}
	if err := comings.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, c := range conns {
		floods.Go(func() error {
			if err := flood(c, uint64(i)); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
				return err
			}
			return nil
		})
	}
	if err := floods.Wait(); err != nil {
		t.Error(err)
	}
	c, err := dialNarrow(entry.Addr)
	if err == nil {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
		err = converse(c)
	}
	if err != nil {
		t.Errorf("beside those that are stuck: %v", err)
	}
	for _, g := range []*testenv.GatewayServer{entry, exit} {
		mustStayUnder(t, g.Pid(), peakOfTunnel(budget*mb, history*mb, connections))
	}
}
