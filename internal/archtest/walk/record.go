package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/cinch-layer/cinch/test/rig"
)

// recorder is a connection to the hook in an instrumented cinch.
type recorder struct{ conn net.Conn }

// record makes the cinch that is started next listen for a recorder, which dial connects to.
func (w *walker) record() (dial func() (*recorder, error), err error) {
	at := filepath.Join(w.dir, "hook")
	_ = os.Remove(at)
	if err := os.Setenv("CINCH_WALK", at); err != nil {
		return nil, err
	}
	return func() (*recorder, error) {
		c, err := net.Dial("unix", at)
		if err != nil {
			return nil, err
		}
		return &recorder{c}, nil
	}, nil
}

// next starts a recording and returns the previous one.
func (r *recorder) next() ([]uint32, error) {
	if _, err := io.WriteString(r.conn, "\n"); err != nil {
		return nil, err
	}
	var n uint32
	if err := binary.Read(r.conn, binary.BigEndian, &n); err != nil {
		return nil, err
	}
	entered := make([]uint32, n)
	return entered, binary.Read(r.conn, binary.BigEndian, entered)
}

// The number of requests before recording, the number of recorded requests, and how long a recording
// continues after the reply to include the work that follows it. The shortest recording has the least other
// work of the process.
const (
	warm     = 300
	times    = 15
	followed = 5 * time.Millisecond
)

// shortest records a request several times and returns the shortest recording.
func (r *recorder) shortest(request func() error) (least []uint32, err error) {
	for range warm {
		if err := request(); err != nil {
			return nil, err
		}
	}
	for range times {
		time.Sleep(followed)
		if _, err := r.next(); err != nil {
			return nil, err
		}
		if err := request(); err != nil {
			return nil, err
		}
		time.Sleep(followed)
		entered, err := r.next()
		if err != nil {
			return nil, err
		}
		if least == nil || len(entered) < len(least) {
			least = entered
		}
	}
	return least, nil
}

// serve runs the instrumented cinch with one gateway and returns its address. settings are lines of its
// configuration.
func (w *walker) serve(protocol, upstream, settings string) (addr string, r *recorder, err error) {
	dial, err := w.record()
	if err != nil {
		return "", nil, err
	}
	if addr, err = rig.FreeAddr(); err != nil {
		return "", nil, err
	}
	file := filepath.Join(w.dir, "cinch.yaml")
	text := fmt.Sprintf("admin: {listen: off}\ngateways:\n  - name: walk\n    protocol: %s\n    listen: %q\n    upstream: %q\n    %s\n", protocol, addr, upstream, settings)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", nil, err
	}
	p, err := rig.StartListener("cinch", addr, w.dir, w.binary, "serve", "--config", file)
	if err != nil {
		return "", nil, err
	}
	w.started = append(w.started, p)
	r, err = dial()
	return addr, r, err
}
