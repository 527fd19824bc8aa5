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

// Ports of tests lie below those that Linux gives to connections (32768 and up,
// net.ipv4.ip_local_port_range), so that no connection takes one before its server does, and
// each test process has a block of its own, so that none takes another's.
const (
	firstPort  = 20_480
	blockPorts = 1024
	blocks     = 12
)

var ports = sync.OnceValues(takeBlock)

// block hands out the ports of one test process in turns.
type block struct {
	lock  *os.File // held until the process ends
	first int

	mu   sync.Mutex
	next int // offset of the port to try next
}

// takeBlock locks the first block that no other test process has. Where several test runs share a machine
// it may take until one of their processes ends.
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

// lockBlock returns nothing if another process has the block.
func lockBlock(i int) (*block, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("cinch-test-ports.%d", i))
	f, err := os.Open(path) // another user's, as root's: locking it takes no right to write
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644); err == nil {
			err = f.Chmod(0o644) // whatever the umask is
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

// FreePort returns a TCP port of 127.0.0.1 that nothing listens on and that no other test is
// given.
func FreePort(t testing.TB) int {
	t.Helper()
	return FreePorts(t, 1, "127.0.0.1")
}

// FreePorts returns the first of n TCP ports that follow each other, that nothing listens on at
// any of the hosts, and that no other test is given before a thousand more were.
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
