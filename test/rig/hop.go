package rig

import (
	"io"
	"net"
	"sync/atomic"
)

// Hop forwards TCP connections and counts their bytes in both directions.
type Hop struct{ bytes atomic.Int64 }

// Bytes returns the number of bytes forwarded so far.
func (h *Hop) Bytes() int64 { return h.bytes.Load() }

// Serve accepts connections on l until l is closed, and forwards them to an address.
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
