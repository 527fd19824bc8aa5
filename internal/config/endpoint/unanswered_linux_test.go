package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cinch-layer/cinch/test/testenv"
)

// TCP_USER_TIMEOUT is set only for a peer that does not answer: for others the kernel would also end a connection whose
// peer is alive and doesn't read.
func TestIsUnanswered(t *testing.T) {
	const timeout = 30 * time.Second // times in a TCPInfo are ages in ms
	for name, c := range map[string]struct {
		info unix.TCPInfo
		want bool
	}{
		"idle":                                    {unix.TCPInfo{Last_data_sent: 9e6, Last_ack_recv: 9e6}, false},
		"sent after an hour":                      {unix.TCPInfo{Unacked: 1, Last_data_sent: 1, Last_ack_recv: 36e5}, false},
		"sent again":                              {unix.TCPInfo{Unacked: 1, Retransmits: 1, Last_data_sent: 400, Last_ack_recv: 700}, true},
		"an acknowledgement after that":           {unix.TCPInfo{Unacked: 1, Retransmits: 1, Last_data_sent: 400, Last_ack_recv: 399}, false},
		"sent again, and refused at once":         {unix.TCPInfo{Unacked: 1, Retransmits: 9, Last_data_sent: 12_800, Last_ack_recv: 12_800}, false},
		"full window, probe answered":             {unix.TCPInfo{Notsent_bytes: 1, Last_data_sent: 9e6, Last_ack_recv: 119_000}, false},
		"full window, probe on its way":           {unix.TCPInfo{Notsent_bytes: 1, Probes: 1, Last_data_sent: 9e6, Last_ack_recv: 29_999}, false},
		"full window, nothing within the timeout": {unix.TCPInfo{Notsent_bytes: 1, Probes: 1, Last_data_sent: 9e6, Last_ack_recv: 30_000}, true},
		"keep-alive probe on its way":             {unix.TCPInfo{Probes: 1, Last_data_sent: 9e6, Last_ack_recv: 15_000}, false},
	} {
		if got := isUnanswered(&c.info, timeout); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A server that is alive but doesn't read, or reads little by little, keeps its connection. The test asks the kernel
// how long the window was full.
func TestUpstreamDoesNotRead(t *testing.T) {
	testenv.NeedsPrograms(t) // it takes some seconds, as the kernel's timers do
	for _, reads := range []bool{false, true} {
		t.Run(fmt.Sprintf("reads=%v", reads), func(t *testing.T) {
			t.Parallel()
			small := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
				return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 8<<10) })
			}}
			l, err := small.Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			const silence = 3 * time.Second
			c, err := Upstream{Network: "tcp", Address: l.Addr().String(), Silence: silence}.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			server, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			wrote := make(chan error, 1)
			go func() {
				var err error
				for err == nil {
					_, err = c.Write(make([]byte, 1<<20))
				}
				wrote <- err
			}()
			for full := time.Duration(0); full < 3*silence; full = windowWasFull(t, c) {
				select {
				case err := <-wrote:
					t.Fatalf("after a full window for %v: %v", full, err)
				case <-time.After(100 * time.Millisecond):
				}
				if reads {
					if _, err := server.Read(make([]byte, 1<<10)); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// windowWasFull returns for how long c's peer has had no room for bytes, in all.
func windowWasFull(t *testing.T, c net.Conn) (full time.Duration) {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Error(err)
			return
		}
		full = time.Duration(info.Rwnd_limited) * time.Microsecond
	}); err != nil {
		t.Fatal(err)
	}
	return full
}

// A request whose upstream has vanished from the network ends with an error, whether it was
// acknowledged or not, or could not be sent as the upstream didn't read. Loopback never loses a packet, so
// the server has a network of its own.
func TestUpstreamVanishes(t *testing.T) {
	for _, when := range []string{"before the request", "after the request", "with a full window"} {
		t.Run(when, func(t *testing.T) {
			h := newHost(t)
			c, err := Upstream{Network: "tcp", Address: h.listener.Addr().String(), Silence: 2 * time.Second}.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			server, err := h.listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			wrote := make(chan error, 1)
			switch when {
			case "before the request":
				h.vanish(t)
				_, err = c.Write([]byte("request"))
			case "after the request":
				if _, err = c.Write([]byte("request")); err == nil {
					_, err = io.ReadFull(server, make([]byte, len("request")))
				}
				h.vanish(t)
			case "with a full window":
				go func() {
					_, err := c.Write(make([]byte, 64<<20))
					wrote <- err
				}()
				for windowWasFull(t, c) < 2*time.Second {
					time.Sleep(time.Millisecond)
				}
				h.vanish(t)
			}
			if err != nil {
				t.Fatal(err)
			}
			_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute)) // the bug was to wait for a quarter of an hour
			_, err = c.Read(make([]byte, 1))
			if errors.Is(err, io.EOF) && when == "with a full window" {
				err = <-wrote // the kernel reports the error once
			}
			if !errors.Is(err, syscall.ETIMEDOUT) {
				t.Errorf("the reply that never comes: %v, want %v", err, syscall.ETIMEDOUT)
			}
		})
	}
}

// host stands for another machine: a network namespace, connected by a veth pair.
type host struct {
	name, near string
	listener   net.Listener
}

// newHost skips the test if network namespaces can't be made. Its names and addresses are unique to this
// process, since tests of other packages run at the same time.
func newHost(t *testing.T) *host {
	t.Helper()
	testenv.NeedsPrograms(t)
	id := os.Getpid()
	net := fmt.Sprintf("10.%d.%d.", 64+id>>8%64, id%256)
	h := &host{name: fmt.Sprintf("cinch-%d", id), near: net + "1"}
	if out, err := exec.Command("ip", "netns", "add", h.name).CombinedOutput(); err != nil {
		t.Skipf("no network namespaces here, so no server that vanishes: ip netns add: %v %s", err, out)
	}
	cable := fmt.Sprintf("cinch%d", id)
	t.Cleanup(func() { h.ip(t, "netns", "delete", h.name) })
	h.ip(t, "link", "add", cable, "type", "veth", "peer", "name", "far", "netns", h.name)
	t.Cleanup(func() { h.ip(t, "link", "delete", cable) })
	h.ip(t, "address", "add", h.near+"/30", "dev", cable)
	h.ip(t, "link", "set", cable, "up")
	h.ip(t, "-n", h.name, "address", "add", net+"2/30", "dev", "far")
	h.ip(t, "-n", h.name, "link", "set", "far", "up")
	h.listener = h.listen(t, net+"2:0")
	return h
}

func (h *host) ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v %s", strings.Join(args, " "), err, out)
	}
}

// vanish drops all packets that the host sends.
func (h *host) vanish(t *testing.T) {
	t.Helper()
	h.ip(t, "-n", h.name, "route", "add", "blackhole", h.near)
}

// listen opens a socket on the host. It does so on a thread that moves to the host's namespace and ends with
// the goroutine.
func (h *host) listen(t *testing.T, address string) net.Listener {
	t.Helper()
	type result struct {
		l   net.Listener
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread belongs to the other network
		ns, err := os.Open("/run/netns/" + h.name)
		if err != nil {
			done <- result{nil, err}
			return
		}
		defer ns.Close()
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{nil, err}
			return
		}
		var config net.ListenConfig
		l, err := config.Listen(context.Background(), "tcp", address)
		done <- result{l, err}
	}()
	r := <-done
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { _ = r.l.Close() })
	return r.l
}
