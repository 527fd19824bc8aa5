package shadow

import (
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// closedServer is a connection to a server that has sent a last message and closed it. Read returns the message a
// moment after a write or a half-close has failed, unless the connection is closed first.
type closedServer struct {
	net.Conn
	refused chan struct{} // closed when a write or a half-close has failed
	closed  chan struct{}
	left    io.Reader
}

func (s *closedServer) refuse(err error) error {
	close(s.refused)
	return err
}

func (s *closedServer) Write([]byte) (int, error) { return 0, s.refuse(syscall.EPIPE) }

func (s *closedServer) CloseWrite() error { return s.refuse(syscall.ENOTCONN) }

func (s *closedServer) Read(b []byte) (int, error) {
	select {
	case <-s.refused:
		time.Sleep(time.Second) // virtual time: all other goroutines have run
	case <-s.closed:
	}
	select {
	case <-s.closed:
		return 0, net.ErrClosed
	default:
	}
	n, err := s.left.Read(b)
	if err != nil {
		err = syscall.ECONNRESET
	}
	return n, err
}

func (s *closedServer) Close() error {
	close(s.closed)
	return nil
}

// sender is a client's connection. After sends, reads fail with then, or block until it is closed if then is
// nil.
type sender struct {
	net.Conn
	sends  io.Reader
	then   error
	closed chan struct{}
	told   strings.Builder
}

func (c *sender) Read(b []byte) (int, error) {
	if n, _ := c.sends.Read(b); n > 0 {
		return n, nil
	}
	if c.then != nil {
		return 0, c.then
	}
	<-c.closed
	return 0, net.ErrClosed
}

func (c *sender) Write(b []byte) (int, error) { return c.told.Write(b) }

func (c *sender) Close() error {
	close(c.closed)
	return nil
}

// The last message of a server that has closed its connection reaches the client, also while the client is sending, or
// after it has ended its own side, but not if the client's connection was reset.
func TestLastMessagePasses(t *testing.T) {
	for name, one := range map[string]struct {
		sends string
		then  error
		want  string
	}{
		"the client sends":                {"sync", nil, "FATAL"},
		"the client sends, and ends":      {"sync", io.EOF, "FATAL"},
		"the client ends":                 {"", io.EOF, "FATAL"},
		"the client sends, and has gone":  {"sync", syscall.ECONNRESET, ""},
		"the client has gone, by a reset": {"", syscall.ECONNRESET, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &closedServer{refused: make(chan struct{}), closed: make(chan struct{}), left: strings.NewReader("FATAL")}
				client := &sender{sends: strings.NewReader(one.sends), then: one.then, closed: make(chan struct{})}
				p := &proxyConn{clientConn: &clientConn{}, client: client, upstream: server, tap: newTap(newBudget(MiB), 0)}
				p.Run()
				if got := client.told.String(); got != one.want {
					t.Errorf("the client was told %q", got)
				}
			})
		})
	}
}
