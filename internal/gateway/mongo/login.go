package mongo

import (
	"bytes"
	"log/slog"
	"net"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// A login must prove the client's own identity, and the proof must be in the messages: a mechanism that
// relies on the connection would log the client in as the gateway, whose connection the server sees. So only
// mechanisms that are known to carry their own proof pass.

// proof is the kind of proof of identity that a mechanism sends.
type proof uint8

const (
	// ownProof: the response to a challenge, or a ticket, which is of no use to an eavesdropper.
	ownProof proof = iota + 1
	// cleartextSecret: the password or token itself, which must not be sent over a connection that can be
	// eavesdropped on. A client that has TLS to the gateway does not know whether the gateway has TLS to the
	// server.
	cleartextSecret
)

// mechanisms lists those that may pass, as servers spell them. MONGODB-X509 is missing because it relies on
// the certificate of the connection.
var mechanisms = map[string]proof{
	"SCRAM-SHA-256": ownProof,
	"SCRAM-SHA-1":   ownProof,
	"MONGODB-CR":    ownProof,
	"MONGODB-AWS":   ownProof,
	"GSSAPI":        ownProof,
	"PLAIN":         cleartextSecret,
	"MONGODB-OIDC":  cleartextSecret,
}

const mechanismX509 = "MONGODB-X509"

// loginFilter decides which login mechanisms may pass a gateway.
type loginFilter struct {
	private bool // the connection to the server is safe from eavesdroppers
	stats   *gateway.Stats
	log     *slog.Logger
}

// newLoginFilter returns the filter for connections to an upstream.
func newLoginFilter(up endpoint.Upstream, stats *gateway.Stats, log *slog.Logger) *loginFilter {
	return &loginFilter{private: up.TLS != nil || up.Network == "unix", stats: stats, log: log}
}

func (l *loginFilter) allow(mechanism []byte) bool {
	switch mechanisms[string(mechanism)] {
	case ownProof:
		return true
	case cleartextSecret:
		return l.private
	}
	return false
}

// Fields of commands that concern logins.
const (
	mechanismKey   = "mechanism"
	speculativeKey = "speculativeAuthenticate"
	supportedKey   = "saslSupportedMechs"
)

// refusedIn returns the mechanism for which the document of saslStart or authenticate is refused; "": it may
// pass. Every field named mechanism must be allowed, since servers may use any of them. If there is none,
// servers refuse the login, or use MONGODB-CR.
func (l *loginFilter) refusedIn(doc []byte) (mechanism string, err error) {
	err = wire.Elements(doc, func(e wire.Element) bool {
		if string(e.Key) == mechanismKey && !l.allow(wire.Text(e.Value)) {
			mechanism = mechanismName(e.Value)
		}
		return mechanism == ""
	})
	return mechanism, err
}

// refusedSpeculative returns the mechanism for which the first step of a login in a hello is refused; "": it may
// pass. The step is removed, and clients then log in by a separate command.
func (l *loginFilter) refusedSpeculative(v bsoncore.Value) string {
	doc := wire.Document(v)
	if doc == nil || v.Type != bsoncore.TypeEmbeddedDocument {
		return mechanismName(v)
	}
	mechanism, err := l.refusedIn(doc)
	if err != nil {
		return unknownMechanism
	}
	return mechanism
}

const (
	unknownMechanism = "unknown"
	maxMechanismName = 32 // bytes of a name in logs and replies
)

// mechanismName returns the name of a mechanism for logs and replies.
func mechanismName(v bsoncore.Value) string {
	name := wire.Text(v)
	if len(name) == 0 || len(name) > maxMechanismName {
		return unknownMechanism
	}
	for _, c := range name {
		if c <= ' ' || c > '~' {
			return unknownMechanism
		}
	}
	return string(name)
}

// appendSupported appends the list of mechanisms by which a user may log in, from which drivers choose,
// without those that the gateway refuses.
func (l *loginFilter) appendSupported(dst, doc []byte, e wire.Element) []byte {
	list := wire.Document(e.Value)
	if list == nil {
		return append(dst, e.Of(doc)...)
	}
	index, dst := bsoncore.AppendArrayElementStart(dst, supportedKey)
	n := 0
	_ = wire.Elements(list, func(m wire.Element) bool {
		if name := wire.Text(m.Value); l.allow(name) {
			dst = bsoncore.AppendStringElement(dst, arrayKey(n), string(name))
			n++
		}
		return true
	})
	dst, _ = bsoncore.AppendArrayEnd(dst, index)
	return dst
}

// refusalText returns the error text for a refused mechanism, which drivers show. Where possible it tells the user
// what to do instead.
func (l *loginFilter) refusalText(mechanism string) string {
	switch {
	case mechanism == mechanismX509:
		return "MONGODB-X509 does not work through this gateway: the server would see the gateway's certificate, not yours; log in with SCRAM-SHA-256"
	case mechanisms[mechanism] == cleartextSecret:
		return mechanism + " does not work through this gateway: it sends a secret in clear, and the gateway does not use TLS to the server"
	}
	return "mechanism " + mechanism + " does not work through this gateway: the gateway knows only mechanisms whose messages prove the client's identity"
}

// hasHiddenLogin reports whether a message contains a login in a document sequence, where no driver puts one:
// some servers would accept it there.
func hasHiddenLogin(r *request) bool {
	if r.header.OpCode != wire.OpMsg {
		return false
	}
	for _, s := range r.msg.Sequences {
		name, _, _ := bytes.Cut(s.Identifier.Of(r.plain), []byte{'.'})
		if string(name) == mechanismKey || string(name) == speculativeKey {
			return true
		}
	}
	return false
}

// refusedMechanism returns the mechanism for which a hello or the beginning of a login is refused; "": it may
// pass.
func (l *loginFilter) refusedMechanism(r *request) (mechanism string, err error) {
	switch {
	case hasHiddenLogin(r):
		return unknownMechanism, nil
	case r.traits&startsLogin != 0:
		return l.refusedIn(r.document.Of(r.plain))
	}
	return "", nil
}

// recordRefused counts and logs a login that was refused.
func (l *loginFilter) recordRefused(client net.Conn, mechanism string) {
	l.stats.Error("login_refused")
	l.log.Warn("login refused", "client", client.RemoteAddr().String(), "mechanism", mechanism, "hint", l.refusalText(mechanism))
}

const codeAuthenticationFailed = 18

// refusalReply returns the reply to a login that was refused.
func (l *loginFilter) refusalReply(h wire.Header, mechanism string) []byte {
	return replyTo(h, errorDoc(codeAuthenticationFailed, "AuthenticationFailed", l.refusalText(mechanism)))
}
