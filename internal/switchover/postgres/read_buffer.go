package postgres

import (
	"net"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// bufferBytes is the size of one read.
const bufferBytes = 32 << 10

// source reads from a connection. While waiting it holds only the received part of an incomplete message.
type source struct {
	conn  net.Conn
	spare []byte // the buffer that more returned last; reused by the next call
	kept  []byte // the incomplete message; nil: none
}

// more returns the kept bytes followed by newly read ones. The result is valid until the next call.
func (s *source) more() ([]byte, error) {
	buf, n, err := gateway.ReadNext(s.conn, s.spare, bufferBytes)
	s.spare = nil
	if err != nil {
		return nil, err
	}
	if s.kept == nil {
		s.spare = buf
		return buf[:n], nil
	}
	joined := memory.GetBuffer(max(bufferBytes, len(s.kept)+n))
	joined = append(append(joined, s.kept...), buf[:n]...)
	memory.PutBuffer(buf)
	memory.PutBuffer(s.kept)
	s.kept, s.spare = nil, joined
	return joined, nil
}

// keep copies b; the next call of more returns it first.
func (s *source) keep(b []byte) {
	if len(b) > 0 {
		s.kept = append(memory.GetBuffer(len(b)), b...)
	}
}

func (s *source) free() {
	memory.PutBuffer(s.spare)
	memory.PutBuffer(s.kept)
	s.spare, s.kept = nil, nil
}
