package mongo

import (
	"bytes"
	"log/slog"
	"net"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// A login must be the client's own. What proves it has to be in the messages: a mechanism
// that rests on the connection would log the client in as the gateway, whose connection the
// server sees. So only mechanisms that are known to bring their own proof pass.

// proof says what a mechanism sends to prove who the client is.
type proof uint8

const (
	// ownProof: the answer to a challenge, or a ticket, that is of no use to a listener.
	ownProof proof = iota + 1
	// openSecret: the password or token itself, which must not go on over a connection that can
	// be listened to. A client that has TLS as far as here does not know what is behind.
	openSecret
)

// mechanisms are those that pass, as servers spell them. MONGODB-X509 is the certificate of
// the connection.
var mechanisms = map[string]proof{
	"SCRAM-SHA-256": ownProof,
	"SCRAM-SHA-1":   ownProof,
	"MONGODB-CR":    ownProof,
	"MONGODB-AWS":   ownProof,
	"GSSAPI":        ownProof,
	"PLAIN":         openSecret,
	"MONGODB-OIDC":  openSecret,
}

const mechanismX509 = "MONGODB-X509"

// logins decides which mechanisms pass a gateway.
type logins struct {
	private bool // the way to the server is safe from listeners
	stats   *gateway.Stats
	log     *slog.Logger
}

// newLogins returns the logins that may go to an upstream.
func newLogins(up gateway.Upstream, stats *gateway.Stats, log *slog.Logger) *logins {
	return &logins{private: up.TLS != nil || up.Network == "unix", stats: stats, log: log}
}

func (l *logins) allow(mechanism []byte) bool {
	switch mechanisms[string(mechanism)] {
	case ownProof:
		return true
	case openSecret:
		return l.private
	}
	return false
}

// Where a login stands in commands.
const (
	mechanismKey   = "mechanism"
	speculativeKey = "speculativeAuthenticate"
	supportedKey   = "saslSupportedMechs"
)

// refused returns the mechanism for which the document of saslStart or authenticate is
// refused. Every field of that name has to be right: servers may take any of them. Where there
// is none, servers refuse, or mean MONGODB-CR.
func (l *logins) refused(doc []byte) (mechanism string, err error) {
	err = wire.Elements(doc, func(e wire.Element) bool {
		if string(e.Key) == mechanismKey && !l.allow(wire.Text(e.Value)) {
			mechanism = mechanismName(e.Value)
		}
		return mechanism == ""
	})
	return mechanism, err
}

// refusedFirst returns the mechanism for which a hello's first step of a login is refused:
// clients hear nothing of it then, and log in by a command of its own.
func (l *logins) refusedFirst(v bsoncore.Value) string {
	doc := wire.Document(v)
	if doc == nil || v.Type != bsoncore.TypeEmbeddedDocument {
		return mechanismName(v)
	}
	mechanism, err := l.refused(doc)
	if err != nil {
		return unknownMechanism
	}
	return mechanism
}

const (
	unknownMechanism = "unknown"
	maxMechanismName = 32 // bytes of it in logs and replies
)

// mechanismName is what a mechanism is called in logs and replies.
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

// appendSupported appends the mechanisms by which a user may log in, without those that we
// would refuse: drivers choose from the list.
func (l *logins) appendSupported(dst, doc []byte, e wire.Element) []byte {
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

// why tells the user what to do instead. It is the text of the error that drivers show.
func (l *logins) why(mechanism string) string {
	switch {
	case mechanism == mechanismX509:
		return "MONGODB-X509 does not pass this gateway: the server would see the gateway's certificate and not yours; log in with SCRAM-SHA-256"
	case mechanisms[mechanism] == openSecret:
		return mechanism + " does not pass this gateway: it sends a secret as it is, and the gateway does not reach the server by TLS"
	}
	return "mechanism " + mechanism + " does not pass this gateway: it is not known to bring a proof of its own"
}

// hiddenLogin reports a message in which a login stands in a section of documents, where no
// driver puts one: servers differ in whether they would find it there.
func hiddenLogin(r *request) bool {
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

// refusedMechanism returns the mechanism for which a hello or the begin of a login is refused; "": it may pass.
func (l *logins) refusedMechanism(r *request) (mechanism string, err error) {
	switch {
	case hiddenLogin(r):
		return unknownMechanism, nil
	case r.traits&logsIn != 0:
		return l.refused(r.document.Of(r.plain))
	}
	return "", nil
}

// note counts and logs a login that was refused.
func (l *logins) note(client net.Conn, mechanism string) {
	l.stats.Error("login_refused")
	l.log.Warn("login refused", "client", client.RemoteAddr().String(), "mechanism", mechanism, "hint", l.why(mechanism))
}

const codeAuthenticationFailed = 18

// refusal is the reply to a login that was refused.
func (l *logins) refusal(h wire.Header, mechanism string) []byte {
	return replyTo(h, failed(codeAuthenticationFailed, "AuthenticationFailed", l.why(mechanism)))
}
