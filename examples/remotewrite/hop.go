package main

import (
	"io"
	"net"
	"sync/atomic"
)

// hop passes TCP connections on, and counts their bytes in both directions.
type hop struct{ bytes atomic.Int64 }

func (h *hop) serve(l net.Listener, to string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go h.pass(c, to)
	}
}

func (h *hop) pass(client net.Conn, to string) {
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
	hop *hop
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.hop.bytes.Add(int64(n))
	return n, err
}
