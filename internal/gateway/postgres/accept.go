package postgres

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// firstTime is how long a client may take for its first packet, as the server has it.
const firstTime = time.Minute

// mostQuestions that a client may ask about encryption.
const mostQuestions = 4

// ErrFirstPacket is wrapped by what is no first packet of a PostgreSQL client.
var ErrFirstPacket = errors.New("no PostgreSQL client")

// Accept answers a client's questions about encryption. It returns the connection to go on with and the first packet that is for the
// server: a startup or a cancellation. Clients may ask for TLS, or begin with it at once.
func Accept(client net.Conn, config *tls.Config) (net.Conn, []byte, error) {
	if err := client.SetDeadline(time.Now().Add(firstTime)); err != nil {
		return nil, nil, err
	}
	for range mostQuestions {
		head := make([]byte, pg.StartupHeaderBytes)
		if _, err := io.ReadFull(client, head); err != nil {
			return nil, nil, err
		}
		if !isTLS(client) && config != nil && head[0] == handshakeRecord {
			var err error
			if client, err = atOnce(client, head, config); err != nil {
				return nil, nil, err
			}
			continue
		}
		packet, code, err := readFirst(client, head)
		if err != nil {
			return nil, nil, err
		}
		switch code {
		case pg.SSLRequest:
			client, err = encrypt(client, config)
		case pg.GSSRequest:
			_, err = client.Write([]byte{'N'})
		default:
			return client, packet, client.SetDeadline(time.Time{})
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, ErrFirstPacket
}

// readFirst reads the rest of a packet without a type, and nothing of what follows.
func readFirst(c net.Conn, head []byte) (packet []byte, code uint32, err error) {
	n, code, err := pg.StartupHead(head)
	if err != nil {
		return nil, 0, errors.Join(ErrFirstPacket, err)
	}
	packet = append(head, make([]byte, n-len(head))...)
	_, err = io.ReadFull(c, packet[len(head):])
	return packet, code, err
}

// encrypt answers the question for TLS.
func encrypt(c net.Conn, config *tls.Config) (net.Conn, error) {
	if isTLS(c) || config == nil {
		_, err := c.Write([]byte{'N'})
		return c, err
	}
	if _, err := c.Write([]byte{'S'}); err != nil {
		return nil, err
	}
	secure := tls.Server(c, withProtocol(config))
	return secure, secure.Handshake()
}

// handshakeRecord is what TLS begins with. As a length of a first packet it would be far above the limit.
const handshakeRecord = 22

// protocolName is what PostgreSQL is called in TLS (ALPN). Clients that begin with TLS at once have to say it, so that nobody has them
// speak to a server of another protocol.
const protocolName = "postgresql"

// atOnce is TLS with a client that has begun with it (sslnegotiation=direct).
func atOnce(c net.Conn, head []byte, config *tls.Config) (net.Conn, error) {
	secure := tls.Server(&begun{Conn: c, head: head}, withProtocol(config))
	if err := secure.Handshake(); err != nil {
		return nil, err
	}
	if secure.ConnectionState().NegotiatedProtocol != protocolName {
		return nil, ErrFirstPacket
	}
	return secure, nil
}

// withProtocol is a configuration with the name of the protocol.
func withProtocol(config *tls.Config) *tls.Config {
	named := config.Clone()
	named.NextProtos = []string{protocolName}
	if get := config.GetConfigForClient; get != nil {
		named.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			c, err := get(hello)
			if c == nil {
				return c, err
			}
			c = c.Clone()
			c.NextProtos = named.NextProtos
			return c, err
		}
	}
	return named
}

// begun is a connection whose first bytes have been read.
type begun struct {
	net.Conn
	head []byte
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.head) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.head)
	b.head = b.head[n:]
	return n, nil
}
