package postgres

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
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
	total, err := pg.MessageBytes(raw)
	if err != nil || total > 1+maxLoginBytes {
		return m, pg.ErrProtocol
	}
	raw = append(raw, make([]byte, total-pg.HeaderBytes)...)
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

// oldestVersion is protocol 3.0, the only one that servers support since PostgreSQL 14.
const oldestVersion = 3 << 16

// begin reads the client's first packet and performs its login. It returns what the client has sent after the
// login.
func (s *session) begin() (readAhead []byte, err error) {
	client, packet, err := Accept(s.raw, s.g.cfg.TLS)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.client, s.startup = client, packet
	s.mu.Unlock()
	switch _, code, _ := pg.StartupHead(packet); {
	case code == pg.CancelRequest:
		s.g.forwardCancel(client, packet)
		return nil, errEnded
	case s.g.cfg.TLS != nil && !isTLS(client):
		return nil, errPlain
	case code < oldestVersion: // the gateway could not parse the server's response
		return nil, ErrFirstPacket
	}
	if s.params, err = pg.StartupParameters(packet); err != nil {
		return nil, err
	}
	if !s.g.register(s) {
		return nil, errEnded
	}
	return s.login()
}

func (s *session) login() (readAhead []byte, err error) {
	b, err := s.g.connect(s.g.ctx)
	if err != nil {
		return nil, err
	}
	return s.logInAt(b)
}

// logInAt performs the login at a server that is connected.
func (s *session) logInAt(b *backend) (readAhead []byte, err error) {
	if !s.adopt(b) {
		_ = gateway.Abort(b.conn)
		return nil, errEnded
	}
	a := loginProxy{s: s, client: newMessageConn(s.client), server: newMessageConn(b.conn), binding: NewBinding(s.client, b.conn, s.g.cfg.TLS)}
	if err := a.run(s.startup); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.farewell != nil {
		return nil, errEnded
	}
	_, _ = s.client.SetDeadline(time.Time{}), b.conn.SetDeadline(time.Time{})
	s.ready, s.tracker.lost, s.statuses = true, wantsReplication(s.params), a.statuses
	s.credentials = credentials{proof: a.proof, password: a.password}
	b.rest = a.server.rest()
	s.changed.Broadcast()
	return a.client.rest(), nil
}

// adopt sets the session's first connection to a server, and the deadline of the login. It returns false if
// the session has ended.
func (s *session) adopt(b *backend) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.farewell != nil {
		return false
	}
	s.backend = b
	end := time.Now().Add(s.g.cfg.LoginTimeout)
	_, _ = s.client.SetDeadline(end), b.conn.SetDeadline(end)
	return true
}

// setAuthPending records whether the client still has to answer an authentication request.
func (s *session) setAuthPending(owes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.authPending = owes
	s.changed.Broadcast()
}

// wantsReplication reports whether the client asks for replication, which has its own protocol.
func wantsReplication(who map[string]string) bool {
	switch who["replication"] {
	case "", "false", "off", "no", "0":
		return false
	}
	return true
}
