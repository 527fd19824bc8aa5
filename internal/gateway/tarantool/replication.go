package tarantool

import (
	"errors"
	"net"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// replicate forwards the current frame and all that follows unchanged, until the connection ends. Replicas must receive
// rows in stored form, and the frames that they send are no requests that have replies.
func (s *session) replicate(f *frame) error {
	if err := s.outstanding.awaitReplies(); err != nil {
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
