package tarantool

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// pipe makes a connection one for replication, from a request for that on: replicas receive rows as
// they are stored, and what comes back from them is no reply to anything. It ends with the connection.
type pipe struct {
	talk             *conversation
	client, upstream net.Conn

	on atomic.Bool // the connection is another protocol's from here on
}

// pipeWait is how long a request for replication waits for the replies to others before it.
const pipeWait = 30 * time.Second

var errBusy = errors.New("replication was asked for while replies were outstanding")

// settle waits for the replies that are outstanding.
func (p *pipe) settle() error {
	for since := time.Now(); p.talk.outstanding.busy(); time.Sleep(time.Millisecond) {
		if err := p.talk.toServer.flush(); err != nil {
			return err
		}
		if time.Since(since) > pipeWait {
			return errBusy
		}
		select {
		case <-p.talk.dead:
			return errBusy
		default:
		}
	}
	return nil
}

// requests carries what the client sends, from the frame at hand on.
func (p *pipe) requests(in *reader, first []byte) error {
	if err := p.talk.toServer.send(first); err != nil {
		return err
	}
	if err := p.talk.toServer.send(in.rest()); err != nil {
		return err
	}
	in.Free()
	if err := gateway.Relay(p.upstream, p.client); err != nil {
		return err
	}
	return errPiped
}

// errPiped ends the pump of a pipe whose client has nothing more to say.
var errPiped = errors.New("the pipe ended")

// replies is the other direction.
func (p *pipe) replies(in *reader, first []byte) error {
	if err := p.talk.toClient.send(first); err != nil {
		return err
	}
	if err := p.talk.toClient.send(in.rest()); err != nil {
		return err
	}
	in.Free()
	return gateway.Relay(p.client, p.upstream)
}
