package tarantool

import (
	"errors"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// settleWait limits how long replicate waits for the replies to earlier requests.
const settleWait = 30 * time.Second

var errBusy = errors.New("replication was requested while replies were outstanding")

// replicate forwards the current frame and all that follows unchanged, until the connection ends. Replicas must receive
// rows in stored form, and the frames that they send are no requests that have replies.
func (s *session) replicate(f *frame) error {
	if err := s.awaitReplies(); err != nil {
		return err
	}
	s.isReplication.Store(true)
	if s.Draining() {
		return s.Close()
	}
	s.g.cfg.Log.Debug("replication connection, forwarded unchanged", "client", s.Client.RemoteAddr().String(), "type", s.req.header.Type)
	if err := relay(&s.fromClient, f.bytes, &s.toServer, s.Upstream, s.Client); err != nil {
		return err
	}
	return errReplicated
}

// errReplicated ends the request pump of a connection for replication after the client's EOF.
var errReplicated = errors.New("the replication ended")

// awaitReplies waits until no reply is outstanding.
func (s *session) awaitReplies() error {
	for since := time.Now(); s.outstanding.busy(); time.Sleep(time.Millisecond) {
		if err := s.toServer.flush(); err != nil {
			return err
		}
		if time.Since(since) > settleWait {
			return errBusy
		}
		select {
		case <-s.RepliesDone():
			return errBusy
		default:
		}
	}
	return nil
}

// relay carries one direction of a connection for replication, from the current frame on.
func relay(in *reader, current []byte, out *sink, to, from net.Conn) error {
	if err := out.send(current); err != nil {
		return err
	}
	if err := out.send(in.takeBuffered()); err != nil {
		return err
	}
	in.Free()
	return gateway.Relay(to, from)
}
