// Package postgres is what stands between PostgreSQL clients and a server before bytes can be passed through: who encrypts what.
//
// A client's first packet may ask for TLS (or GSSAPI). That question is for this hop, so it is answered here: with TLS where there is a
// certificate, otherwise with "no". The server is asked for TLS by the URL that names it. What comes then passes through
// untouched, logins included: SCRAM works as long as it is not bound to a TLS channel, which has two ends here (clients with
// channel_binding=require refuse, as they should). A cancellation is a connection of its own whose one packet has the server's own key,
// so it passes through like any other.
//
// Reading order: accept.go, dial.go.
package postgres
