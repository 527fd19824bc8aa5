package mongo

import (
	"net"
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// sender sends messages to a peer, one at a time: a client gets refusals from the request pump,
// and the rest from the reply pump.
type sender struct {
	conn    net.Conn
	peer    gateway.Peer
	account *gateway.Account

	mu sync.Mutex
}

// send writes a message. The peer is judged when the message holds memory that others want.
func (s *sender) send(b []byte, held bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held {
		return s.account.Send(s.conn, s.peer, b)
	}
	_, err := s.conn.Write(b)
	return err
}
