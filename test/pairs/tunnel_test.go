package pairs

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

func TestTunnel(t *testing.T) {
	compareAll(t, overTunnel, nil, func(*sequence) float64 { return share })
}

// overTunnel compares a pair with the bytes that clients and server send, since a tunnel has no form with one gateway.
func overTunnel(t *testing.T, s *sequence) (one, pair, links int64) {
	for _, c := range s.clients {
		for _, x := range c[s.warm:] {
			one += int64(len(x.request) + len(x.reply))
		}
	}
	between := startWire(t, gateway(t, "tunnel-exit", "tcp://"+startTCP(t, s), ""))
	entry := gateway(t, "tunnel", "tcp://"+between.Addr, "")
	pair = s.playLinked(t, 1, between, s.tcpClients(t, entry))
	return one, pair, between.links.Load()
}

// startTCP starts the server of a sequence.
func startTCP(t *testing.T, s *sequence) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testenv.AcceptEach(t, l, func(conn net.Conn) {
		defer conn.Close()
		var c [1]byte
		if _, err := io.ReadFull(conn, c[:]); err != nil {
			return
		}
		if _, err := conn.Write(c[:]); err != nil {
			return
		}
		for i, x := range s.clients[c[0]] {
			got := make([]byte, len(x.request))
			if n, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, x.request) {
				t.Errorf("exchange %d of client %d: the server got %d of %d bytes, %v", i, c[0], n, len(got), err)
				return
			}
			if _, err := conn.Write(x.reply); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, conn)
	})
	return l.Addr().String()
}

// tcpClients returns a function that makes the clients of a sequence, each with one connection.
func (s *sequence) tcpClients(t *testing.T, addr string) func(c int) client {
	return func(c int) client {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return client{
			prepare: func() {
				number := []byte{byte(c)}
				_, err := conn.Write(number)
				if err == nil {
					_, err = io.ReadFull(conn, number)
				}
				if err != nil {
					t.Error(err)
				}
			},
			exchange: func(i int, x exchange) {
				_, err := conn.Write(x.request)
				got := make([]byte, len(x.reply))
				n := 0
				if err == nil {
					n, err = io.ReadFull(conn, got)
				}
				if err != nil || !bytes.Equal(got, x.reply) {
					t.Errorf("exchange %d of client %d: the client got %d of %d bytes, %v", i, c, n, len(got), err)
				}
			},
			close: func() { _ = conn.Close() },
		}
	}
}
