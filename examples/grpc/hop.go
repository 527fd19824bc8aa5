package main

import (
	"net"
	"sync/atomic"
)

// hop forwards TCP between two zones and counts every byte in both directions, as a cloud
// does that bills for them. (Below TCP there are headers too, 52 bytes a packet, which are
// not counted here.)
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

// copy ends one direction when its sender does. Bytes count when they have been passed on.
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
