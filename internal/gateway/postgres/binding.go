package postgres

import (
	"bytes"
	"crypto/tls"
	"net"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// Binding is what becomes of a login that would be bound to the server's certificate (SCRAM-SHA-256-PLUS). The client takes the
// certificate that it sees, which is ours, so that works where ours is the server's own. Elsewhere that kind is not offered.
//
// A client within TLS that would have bound its login (libpq does, unless channel_binding=disable) says that it was not offered, and a
// server that has offered it refuses: somebody is between them. The refusal gets a hint.
type Binding struct {
	bound   bool // the offer may stay
	removed bool // an offer was taken out
}

// NewBinding is for a client and a server that were connected to; config is what clients get TLS with.
func NewBinding(client, server net.Conn, config *tls.Config) *Binding {
	to, encrypted := server.(*tls.Conn)
	if !encrypted {
		return &Binding{bound: true} // there is no such offer
	}
	shown := to.ConnectionState().PeerCertificates
	own := certificate(config)
	return &Binding{bound: isTLS(client) && own != nil && len(shown) > 0 && bytes.Equal(shown[0].Raw, own)}
}

// certificate is what clients see.
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

// bindingHint is for people who see the server's refusal.
const bindingHint = "HCinch stands between client and server, so TLS has two ends. Give Cinch the server's own certificate, " +
	"or connect with channel_binding=disable.\x00"

// Append appends a message of the server's login as the client is to get it.
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

// Unbound is a connection to a server whose login reads as b has it. Where that changes nothing it is the server's own.
func Unbound(server net.Conn, b *Binding) net.Conn {
	if b.bound {
		return server
	}
	return &unbound{Conn: server, binding: b}
}

// unbound changes what is read until a login is over.
type unbound struct {
	net.Conn
	binding *Binding
	in, out []byte // of the reader's
	over    bool   // and out is read
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

// fill reads on in the login.
func (u *unbound) fill() error {
	var piece [1 << 10]byte
	n, err := u.Conn.Read(piece[:])
	if n == 0 && len(u.in) == 0 {
		return err
	}
	u.in = append(u.in, piece[:n]...)
	u.over = n == 0 // what has no end is none of ours
	for !u.over {
		m, ok, err := pg.Cut(u.in)
		if err != nil || len(u.in) > maxLoginBytes {
			u.over = true // the client may make of it what it can
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

// endsLogin reports whether what follows is no login.
func endsLogin(m pg.Message) bool {
	if m.Type == pg.Authentication {
		code, _, err := pg.Auth(m.Body)
		return err != nil || code == pg.AuthOK
	}
	return m.Type == pg.ErrorResponse
}

// CloseWrite ends our direction.
func (u *unbound) CloseWrite() error { return gateway.CloseWrite(u.Conn) }

// Close does not wait for what TLS would say at the end.
func (u *unbound) Close() error { return gateway.Abort(u.Conn) }
