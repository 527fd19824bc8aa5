package postgres

import (
	"bytes"
	"crypto/tls"
	"net"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// Binding decides about logins that the client binds to the server's certificate (SCRAM-SHA-256-PLUS). The
// client uses the certificate that it sees, which is the gateway's, so binding works only if the gateway has
// the server's own certificate. Otherwise the mechanism is not offered.
//
// A client within TLS that supports binding (libpq does, unless channel_binding=disable) tells the server
// that it was not offered. A server that has offered it then suspects an attacker between them and refuses.
// The refusal gets a hint.
type Binding struct {
	bound   bool // the offer is forwarded unchanged
	removed bool // the offer was removed
}

// NewBinding returns the Binding for a client and a server that are connected; config is the TLS
// configuration for clients.
func NewBinding(client, server net.Conn, config *tls.Config) *Binding {
	to, encrypted := server.(*tls.Conn)
	if !encrypted {
		return &Binding{bound: true} // without TLS the server does not offer it
	}
	shown := to.ConnectionState().PeerCertificates
	own := certificate(config)
	return &Binding{bound: isTLS(client) && own != nil && len(shown) > 0 && bytes.Equal(shown[0].Raw, own)}
}

// certificate returns the certificate that clients see, or nil if there is none or more than one.
func certificate(config *tls.Config) []byte {
	if config == nil {
		return nil
	}
	if config.GetConfigForClient != nil {
		c, err := config.GetConfigForClient(&tls.ClientHelloInfo{})
		if err != nil || c == nil {
			return nil
		}
		config = c
	}
	if len(config.Certificates) != 1 {
		return nil
	}
	return config.Certificates[0].Certificate[0]
}

// bindingHint is added to the server's refusal, as a hint field.
const bindingHint = "HCinch terminates TLS between client and server, so channel binding needs the server's certificate at Cinch. Give Cinch that certificate, " +
	"or connect with channel_binding=disable.\x00"

// Append appends a message of the server's login in the form for the client.
func (b *Binding) Append(dst []byte, m pg.Message) []byte {
	if b.bound {
		return append(dst, m.Raw...)
	}
	switch m.Type {
	case pg.Authentication:
		code, rest, err := pg.Auth(m.Body)
		if err != nil || code != pg.AuthSASL {
			break
		}
		list := pg.WithoutBinding(rest)
		b.removed = b.removed || len(list) != len(rest)
		return pg.AppendAuth(dst, code, list)
	case pg.ErrorResponse:
		if b.removed && pg.Code(m.Body) == codeLogin && len(m.Body) > 0 {
			return pg.Append(dst, m.Type, m.Body[:len(m.Body)-1], []byte(bindingHint), []byte{0})
		}
	}
	return append(dst, m.Raw...)
}

// Unbound returns a connection to server whose login messages are changed by b. It returns server itself if nothing
// has to change.
func Unbound(server net.Conn, b *Binding) net.Conn {
	if b.bound {
		return server
	}
	return &unbound{Conn: server, binding: b}
}

// unbound passes the server's messages through binding until the login is over.
type unbound struct {
	net.Conn
	binding *Binding
	in, out []byte // received bytes; bytes for the caller of Read
	over    bool
}

func (u *unbound) Read(p []byte) (int, error) {
	for len(u.out) == 0 {
		if u.over {
			return u.Conn.Read(p)
		}
		if err := u.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}

// fill reads more of the login.
func (u *unbound) fill() error {
	var piece [1 << 10]byte
	n, err := u.Conn.Read(piece[:])
	if n == 0 && len(u.in) == 0 {
		return err
	}
	u.in = append(u.in, piece[:n]...)
	u.over = n == 0 // cut off by the end of the connection: forward unchanged
	for !u.over {
		m, ok, err := pg.Cut(u.in)
		if err != nil || len(u.in) > maxLoginBytes {
			u.over = true // not understood: forward unchanged
			break
		}
		if !ok {
			return nil
		}
		u.over = endsLogin(m)
		u.out = u.binding.Append(u.out, m)
		u.in = u.in[len(m.Raw):]
	}
	u.out = append(u.out, u.in...)
	u.in = nil
	return nil
}

// endsLogin reports whether m is the last message of a login.
func endsLogin(m pg.Message) bool {
	if m.Type == pg.Authentication {
		code, _, err := pg.Auth(m.Body)
		return err != nil || code == pg.AuthOK
	}
	return m.Type == pg.ErrorResponse
}

// CloseWrite closes the direction to the server.
func (u *unbound) CloseWrite() error { return gateway.CloseWrite(u.Conn) }

// Close closes the connection without waiting for TLS's closing alert.
func (u *unbound) Close() error { return gateway.Abort(u.Conn) }
