package postgres

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// maxLoginBytes limits one message of a login.
const maxLoginBytes = 64 << 10

// messageConn reads and writes one side of a login, message by message.
type messageConn struct {
	conn net.Conn
	in   *bufio.Reader
}

func newMessageConn(c net.Conn) *messageConn { return &messageConn{c, bufio.NewReaderSize(c, 2<<10)} }

func (t *messageConn) read() (m pg.Message, err error) {
	raw := make([]byte, pg.HeaderBytes)
	if _, err := io.ReadFull(t.in, raw); err != nil {
		return m, err
	}
	n := binary.BigEndian.Uint32(raw[1:])
	if n < pg.HeaderBytes-1 || n > maxLoginBytes {
		return m, pg.ErrProtocol
	}
	raw = append(raw, make([]byte, n+1-pg.HeaderBytes)...)
	if _, err := io.ReadFull(t.in, raw[pg.HeaderBytes:]); err != nil {
		return m, err
	}
	m, _, err = pg.Cut(raw)
	return m, err
}

// rest returns the bytes read after the last message.
func (t *messageConn) rest() []byte {
	b, _ := t.in.Peek(t.in.Buffered())
	return bytes.Clone(b)
}

// loginProxy forwards a client's login to the server and the responses to the client, up to the first
// ReadyForQuery.
type loginProxy struct {
	s              *session
	client, server *messageConn
	binding        *Binding
	out            []byte // for the client

	statuses statuses
	password string // in clear
	first    []byte // the client's first SCRAM message
	proof    *pg.Proof
}

// errRefused ends a login that the server has refused. The client has got the server's error.
var errRefused = errors.New("the server refused the login")

func (a *loginProxy) run(startup []byte) error {
	if _, err := a.server.conn.Write(startup); err != nil {
		return fmt.Errorf("%w: %w", endpoint.ErrUnreachable, err)
	}
	for {
		m, err := a.server.read()
		if err != nil {
			return fmt.Errorf("%w: %w", endpoint.ErrUnreachable, err)
		}
		if err := a.handle(m); err != nil {
			return err
		}
		if m.Type == pg.ReadyForQuery {
			return a.flush()
		}
		if a.server.in.Buffered() == 0 {
			if err := a.flush(); err != nil {
				return err
			}
		}
	}
}

// handle handles a message from the server.
func (a *loginProxy) handle(m pg.Message) error {
	switch m.Type {
	case pg.Authentication:
		return a.authenticate(m)
	case pg.BackendKeyData:
		a.s.backend.key = string(m.Body)
		a.s.g.registerKey(a.s, a.s.backend.key)
	case pg.ParameterStatus:
		a.statuses.set(m.Body)
	case pg.ErrorResponse:
		a.out = a.binding.Append(a.out, m)
		return errors.Join(errRefused, a.flush())
	}
	a.out = append(a.out, m.Raw...)
	return nil
}

// errUnknownLogin means an authentication method that can't pass through a gateway.
var errUnknownLogin = errors.New("GSSAPI and SSPI logins do not work through a gateway: use SCRAM, MD5 or a password")

func (a *loginProxy) authenticate(m pg.Message) error {
	code, rest, err := pg.Auth(m.Body)
	if err != nil {
		return err
	}
	switch code {
	case pg.AuthOK, pg.AuthSASLFinal:
		a.out = append(a.out, m.Raw...)
		return nil
	case pg.AuthCleartext, pg.AuthMD5, pg.AuthSASL, pg.AuthSASLContinue:
		a.out = a.binding.Append(a.out, m)
	default:
		return errUnknownLogin
	}
	said, err := a.forwardAnswer()
	if err == nil {
		a.recordCredentials(code, rest, said)
	}
	return err
}

// recordCredentials records what the login reveals, for logging the session in at another server later.
func (a *loginProxy) recordCredentials(code uint32, challenge, answer []byte) {
	switch code {
	case pg.AuthCleartext:
		a.password = string(bytes.TrimSuffix(answer, []byte{0}))
	case pg.AuthSASL:
		_, a.first, _ = pg.InitialResponse(answer)
	case pg.AuthSASLContinue:
		a.proof, _ = pg.NewProof(a.first, challenge, answer)
	}
}

// forwardAnswer forwards the client's response to an authentication request, and returns it.
func (a *loginProxy) forwardAnswer() ([]byte, error) {
	if err := a.flush(); err != nil {
		return nil, err
	}
	a.s.setAuthPending(true)
	m, err := a.client.read()
	a.s.setAuthPending(false)
	if err != nil {
		return nil, err
	}
	if m.Type != pg.Password {
		return nil, fmt.Errorf("%w: message %q instead of a password", pg.ErrProtocol, m.Type)
	}
	_, err = a.server.conn.Write(m.Raw)
	return m.Body, err
}

func (a *loginProxy) flush() error {
	if len(a.out) == 0 {
		return nil
	}
	_, err := a.client.conn.Write(a.out)
	a.out = a.out[:0]
	return err
}

// isTLS reports whether c is encrypted.
func isTLS(c net.Conn) bool {
	_, ok := c.(*tls.Conn)
	return ok
}

// connect connects to the server for a session.
func (g *Gateway) connect(ctx context.Context) (*backend, error) {
	up := g.target()
	c, err := Dial(ctx, up, g.cfg.Stats)
	if err != nil {
		g.reach.Failed(g.cfg.Log, g.cfg.Stats, "", up.String(), err)
		return nil, err
	}
	g.reach.Succeeded(g.cfg.Log, up.String())
	return &backend{conn: c, at: up}, nil
}
