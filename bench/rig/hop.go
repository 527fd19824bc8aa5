package rig

import (
	"io"
	"net"
	"sync/atomic"
)

// Hop passes TCP connections on, and counts their bytes in both directions.
type Hop struct{ bytes atomic.Int64 }

// Bytes is how many have passed so far.
func (h *Hop) Bytes() int64 { return h.bytes.Load() }

// Serve accepts on l until that is closed, and passes what comes on to an address.
func (h *Hop) Serve(l net.Listener, to string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go h.pass(c, to)
	}
}

func (h *Hop) pass(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(counting{server, h}, client)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(counting{client, h}, server)
}

type counting struct {
	io.Writer
	hop *Hop
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.hop.bytes.Add(int64(n))
	return n, err
}
