package main

import (
	"net"
	"sync/atomic"
)

// hop forwards TCP between two zones and counts the bytes of both directions, as a cloud's bill does. It does
// not count headers below TCP's payload, which are 52 bytes per packet.
type hop struct {
	listener net.Listener
	to       string
	bytes    atomic.Int64
}

func startHop(to string) (*hop, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &hop{listener: l, to: to}
	go h.accept()
	return h, nil
}

func (h *hop) addr() string { return h.listener.Addr().String() }

func (h *hop) close() { _ = h.listener.Close() }

func (h *hop) accept() {
	for {
		from, err := h.listener.Accept()
		if err != nil {
			return
		}
		go h.connect(from.(*net.TCPConn))
	}
}

func (h *hop) connect(from *net.TCPConn) {
	to, err := net.Dial("tcp", h.to)
	if err != nil {
		_ = from.Close()
		return
	}
	go h.copy(from, to.(*net.TCPConn))
	h.copy(to.(*net.TCPConn), from)
}

// copy copies until src ends, and then closes dst for writing. Bytes count once they have been forwarded.
func (h *hop) copy(dst, src *net.TCPConn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				_ = src.CloseRead()
				return
			}
			h.bytes.Add(int64(n))
		}
		if err != nil {
			_ = dst.CloseWrite()
			return
		}
	}
}
