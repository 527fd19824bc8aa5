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
// server: a startup or a cancellation.
func Accept(client net.Conn, config *tls.Config) (net.Conn, []byte, error) {
	if err := client.SetDeadline(time.Now().Add(firstTime)); err != nil {
		return nil, nil, err
	}
	for range mostQuestions {
		packet, code, err := readFirst(client)
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

// readFirst reads a packet without a type, and nothing of what follows.
func readFirst(c net.Conn) (packet []byte, code uint32, err error) {
	packet = make([]byte, pg.StartupHeaderBytes)
	if _, err := io.ReadFull(c, packet); err != nil {
		return nil, 0, err
	}
	n, code, err := pg.StartupHead(packet)
	if err != nil {
		return nil, 0, errors.Join(ErrFirstPacket, err)
	}
	packet = append(packet, make([]byte, n-len(packet))...)
	_, err = io.ReadFull(c, packet[pg.StartupHeaderBytes:])
	return packet, code, err
}

// encrypt answers the question for TLS.
func encrypt(c net.Conn, config *tls.Config) (net.Conn, error) {
	if _, within := c.(*tls.Conn); within || config == nil {
		_, err := c.Write([]byte{'N'})
		return c, err
	}
	if _, err := c.Write([]byte{'S'}); err != nil {
		return nil, err
	}
	secure := tls.Server(c, config)
	return secure, secure.Handshake()
}
