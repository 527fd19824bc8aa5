package redis

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// fromElsewhere is a client's connection from another machine.
type fromElsewhere struct{ net.Conn }

func (fromElsewhere) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5} }

// A client from another machine is refused, like in Redis' protected mode, once it is known that the server
// on loopback requires no password. At the start the server may have been unreachable.
func TestClientsOfOtherMachinesAreRefused(t *testing.T) {
	for answer, want := range map[string]string{
		"+PONG\r\n":             "-DENIED cinch: the server asks no client for a password",
		"-NOAUTH needed.\r\n":   "", // a session
		"-LOADING patience\r\n": "-DENIED",
	} {
		server, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		go func() {
			for {
				c, err := server.Accept()
				if err != nil {
					return
				}
				go func() {
					if _, err := bufio.NewReader(c).ReadString('\n'); err == nil {
						_, _ = c.Write([]byte(answer))
					}
					_ = c.Close()
				}()
			}
		}()
		g := NewGateway(Config{
			Name: "g", Upstream: endpoint.Upstream{Network: "tcp", Address: server.Addr().String()}, GuardLoopback: true,
		})
		client, end := net.Pipe()
		told := make(chan string, 1)
		go func() {
			line, _ := bufio.NewReader(client).ReadString('\n')
			told <- line
		}()
		session := g.newSession(fromElsewhere{end})
		_ = end.Close()
		if line := <-told; (session == nil) != (want != "") || !strings.HasPrefix(line, want) {
			t.Errorf("a server that answers %q: session %v, the client is told %q", answer, session, line)
		}
		if session != nil {
			_ = session.(io.Closer).Close()
		}
	}
}
