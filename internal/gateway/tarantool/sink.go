package tarantool

import (
	"net"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// sink writes frames to a connection. Small ones are gathered until its owner has nothing more
// to add at once; an idle sink holds no buffer. Several goroutines may write: frames stay whole.
type sink struct {
	conn    net.Conn
	peer    gateway.Peer     // at its other end
	account *gateway.Account // that holds memory for frames

	mu  sync.Mutex
	buf []byte
}

// gatherBytes is the size up to which frames are gathered.
const gatherBytes = 16 << 10

// write adds a frame. It is written by the next flush at the latest.
func (s *sink) write(frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.buf)+len(frame) > gatherBytes {
		if err := s.flushLocked(); err != nil {
			return err
		}
	}
	if len(frame) >= gatherBytes {
		return s.account.Send(s.conn, s.peer, frame)
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
	if err := s.write(frame); err != nil {
		return err
	}
	return s.flush()
}

func (s *sink) flushLocked() error {
	if s.buf == nil {
		return nil
	}
	err := s.account.Send(s.conn, s.peer, s.buf)
	gateway.PutBuffer(s.buf)
	s.buf = nil
	return err
}
