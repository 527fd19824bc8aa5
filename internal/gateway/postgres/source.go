package postgres

import (
	"net"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// bufferBytes is what one direction reads at a time.
const bufferBytes = 32 << 10

// source reads a connection. While it waits it holds no more than what has come of a message whose rest has not.
type source struct {
	conn  net.Conn
	spare []byte // what more has returned; its owner is done with it at the next call
	kept  []byte // nil: nothing
}

// more returns what was kept and what has come. It is valid until the next call.
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
	joined := gateway.GetBuffer(max(bufferBytes, len(s.kept)+n))
	joined = append(append(joined, s.kept...), buf[:n]...)
	gateway.PutBuffer(buf)
	gateway.PutBuffer(s.kept)
	s.kept, s.spare = nil, joined
	return joined, nil
}

// keep has the next call of more begin with a copy of b.
func (s *source) keep(b []byte) {
	if len(b) > 0 {
		s.kept = append(gateway.GetBuffer(len(b)), b...)
	}
}

func (s *source) free() {
	gateway.PutBuffer(s.spare)
	gateway.PutBuffer(s.kept)
	s.spare, s.kept = nil, nil
}
