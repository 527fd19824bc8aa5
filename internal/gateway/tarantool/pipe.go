package tarantool

import (
	"errors"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// pipeWait is how long a request for replication waits for the replies to others before it.
const pipeWait = 30 * time.Second

var errBusy = errors.New("replication was asked for while replies were outstanding")

// pipe makes the connection a pipe: replicas receive rows as they are stored, and what comes
// back from them is no reply to anything. It ends with the connection.
func (s *session) pipe(f *frame) error {
	for since := time.Now(); s.pending.busy(); time.Sleep(time.Millisecond) {
		if err := s.toServer.flush(); err != nil {
			return err
		}
		if time.Since(since) > pipeWait {
			return errBusy
		}
		select {
		case <-s.Dead():
			return errBusy
		default:
		}
	}
	s.piped.Store(true)
	if s.Draining() {
		return s.Close()
	}
	s.g.cfg.Log.Debug("connection is for replication, and passes as it is", "client", s.client.RemoteAddr().String(), "type", s.req.header.Type)
	if err := s.toServer.send(f.bytes); err != nil {
		return err
	}
	if err := s.toServer.send(s.in.rest()); err != nil {
		return err
	}
	s.in.Free()
	if err := gateway.Relay(s.upstream, s.client); err != nil {
		return err
	}
	return errPiped
}

// errPiped ends the pump of a pipe whose client has nothing more to say.
var errPiped = errors.New("the pipe ended")

// pipeReplies is the other direction, from the frame at hand on.
func (s *session) pipeReplies(first []byte) error {
	if err := s.toClient.send(first); err != nil {
		return err
	}
	if err := s.toClient.send(s.out.rest()); err != nil {
		return err
	}
	s.out.Free()
	return gateway.Relay(s.client, s.upstream)
}
