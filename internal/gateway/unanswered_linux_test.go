package gateway

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

func TestUpstreamExpectsAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for silence, want := range map[time.Duration]int{0: 30_000, 7 * time.Second: 7_000} {
		c, err := Upstream{Network: "tcp", Address: l.Addr().String(), Silence: silence}.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		raw, err := c.(*Conn).Conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Control(func(fd uintptr) {
			got, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			if err != nil || got != want {
				t.Errorf("silence %v: TCP_USER_TIMEOUT is %d ms (%v), want %d", silence, got, err, want)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// A request whose upstream has vanished from the network ends with an error, whether it was
// acknowledged or not. Loopback never loses a packet, so the server has a network of its own.
func TestUpstreamVanishes(t *testing.T) {
	for _, acknowledged := range []bool{false, true} {
		t.Run(fmt.Sprintf("acknowledged=%v", acknowledged), func(t *testing.T) {
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
			if !acknowledged {
				h.vanish(t)
			}
			if _, err := c.Write([]byte("request")); err != nil {
				t.Fatal(err)
			}
			if acknowledged {
				if _, err := io.ReadFull(server, make([]byte, len("request"))); err != nil {
					t.Fatal(err)
				}
				h.vanish(t)
			}
			_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute)) // the bug was to wait for a quarter of an hour
			if _, err = c.Read(make([]byte, 1)); !errors.Is(err, syscall.ETIMEDOUT) {
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
