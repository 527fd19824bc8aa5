package postgres

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// firstPacketTime limits the wait for a client's first packet, as PostgreSQL's own default does.
const firstPacketTime = time.Minute

// maxEncryptionRequests limits how often a client may ask for encryption.
const maxEncryptionRequests = 4

// ErrFirstPacket is wrapped by the error for a first packet that no PostgreSQL client sends.
var ErrFirstPacket = errors.New("not a PostgreSQL client")

// Accept answers a client's requests for encryption. It returns the connection to use from then on and the
// first packet for the server: a startup or a cancellation. Clients may request TLS, or begin with it at
// once.
func Accept(client net.Conn, config *tls.Config) (net.Conn, []byte, error) {
	if err := client.SetDeadline(time.Now().Add(firstPacketTime)); err != nil {
		return nil, nil, err
	}
	for range maxEncryptionRequests {
		head := make([]byte, pg.StartupHeaderBytes)
		if _, err := io.ReadFull(client, head); err != nil {
			return nil, nil, err
		}
		if !isTLS(client) && config != nil && head[0] == handshakeRecord {
			var err error
			if client, err = directTLS(client, head, config); err != nil {
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

// readFirst reads the rest of a packet without a type byte, and nothing after it.
func readFirst(c net.Conn, head []byte) (packet []byte, code uint32, err error) {
	n, code, err := pg.StartupHead(head)
	if err != nil {
		return nil, 0, errors.Join(ErrFirstPacket, err)
	}
	packet = append(head, make([]byte, n-len(head))...)
	_, err = io.ReadFull(c, packet[len(head):])
	return packet, code, err
}

// encrypt answers a request for TLS.
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

// handshakeRecord is the first byte of TLS. As the first byte of a packet length it would be far above the
// limit.
const handshakeRecord = 22

// protocolName is PostgreSQL's name in TLS (ALPN). Clients that begin with TLS at once must send it, so that
// no attacker can direct them to a server of another protocol.
const protocolName = "postgresql"

// directTLS does the TLS handshake with a client that has begun with it (sslnegotiation=direct).
func directTLS(c net.Conn, head []byte, config *tls.Config) (net.Conn, error) {
	secure := tls.Server(&prefixedConn{Conn: c, head: head}, withProtocol(config))
	if err := secure.Handshake(); err != nil {
		return nil, err
	}
	if secure.ConnectionState().NegotiatedProtocol != protocolName {
		return nil, ErrFirstPacket
	}
	return secure, nil
}

// withProtocol returns a copy of config that offers only protocolName.
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

// prefixedConn is a connection whose first bytes have been read already; Read returns them first.
type prefixedConn struct {
	net.Conn
	head []byte
}

func (b *prefixedConn) Read(p []byte) (int, error) {
	if len(b.head) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.head)
	b.head = b.head[n:]
	return n, nil
}
