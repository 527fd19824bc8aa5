package tarantool

import (
	"net"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// sink writes frames to a connection. Small ones are gathered until its owner has nothing more
// to add at once; an idle sink holds no buffer. Several goroutines may write: frames stay whole.
type sink struct {
	conn     net.Conn
	patience *gateway.Patience

	mu  sync.Mutex
	buf []byte
}

// gatherBytes is the size up to which frames are gathered.
const gatherBytes = 16 << 10

// write adds a frame. It is written by the next flush at the latest.
func (s *sink) write(frame []byte, held bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf)+len(frame) > gatherBytes {
		if err := s.flushLocked(); err != nil {
			return err
		}
	}
	if len(frame) >= gatherBytes {
		return s.patience.Write(s.conn, frame, held)
	}
	if s.buf == nil {
		s.buf = gateway.GetBuffer(gatherBytes)
	}
	s.buf = append(s.buf, frame...)
	return nil
}

func (s *sink) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flushLocked()
}

// send is write and flush.
func (s *sink) send(frame []byte) error {
	if err := s.write(frame, false); err != nil {
		return err
	}
	return s.flush()
}

func (s *sink) flushLocked() error {
	if s.buf == nil {
		return nil
	}
	_, err := s.conn.Write(s.buf)
	gateway.PutBuffer(s.buf)
	s.buf = nil
	return err
}
