package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Test ports lie below the range from which Linux takes the ports of outgoing connections (32768 and up,
// net.ipv4.ip_local_port_range), so that no connection takes a port before its server does. Each test
// process has a block of its own, so that processes do not take each other's ports.
const (
	firstPort  = 20_480
	blockPorts = 1024
	blocks     = 12
)

var ports = sync.OnceValues(takeBlock)

// block hands out the ports of one test process in rotation.
type block struct {
	lock  *os.File // held until the process ends
	first int

	mu   sync.Mutex
	next int // offset of the port to try next
}

// takeBlock locks the first block that no other test process has. If several test runs share the machine it
// may wait until one of their processes ends, for at most 10 minutes.
func takeBlock() (*block, error) {
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		for i := range blocks {
			b, err := lockBlock(i)
			if b != nil || err != nil {
				return b, err
			}
		}
	}
	return nil, fmt.Errorf("%d test processes hold all ports", blocks)
}

// lockBlock returns nil if another process has the block.
func lockBlock(i int) (*block, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("cinch-test-ports.%d", i))
	f, err := os.Open(path) // it may belong to another user, such as root; locking needs no write access
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644); err == nil {
			err = f.Chmod(0o644) // regardless of the umask
		}
	}
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil, f.Close()
	}
	return &block{lock: f, first: firstPort + i*blockPorts}, nil
}

// FreePort returns a TCP port of 127.0.0.1 that has no listener and is given to no other test.
func FreePort(t testing.TB) int {
	t.Helper()
	return FreePorts(t, 1, "127.0.0.1")
}

// FreePorts returns the first of n consecutive TCP ports that have no listener at any of the hosts. A port
// is given out again only after about a thousand others.
func FreePorts(t testing.TB, n int, hosts ...string) int {
	t.Helper()
	NeedsPrograms(t)
	b, err := ports()
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for range blockPorts {
		if b.next+n > blockPorts {
			b.next = 0
		}
		first := b.first + b.next
		if free(first, n, hosts) {
			b.next += n
			return first
		}
		b.next++
	}
	t.Fatalf("no %d free ports from %d on", n, b.first)
	return 0
}

func free(first, n int, hosts []string) bool {
	for _, host := range hosts {
		for port := first; port < first+n; port++ {
			l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
			if err != nil {
				return false
			}
			_ = l.Close()
		}
	}
	return true
}
