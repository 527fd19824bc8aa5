// Package postgres is the gateway for PostgreSQL: it forwards connections to a server and tracks the
// transaction state of each.
//
//	client -> session.carryRequests -> pg.Cutter -> tracker.request  -> server
//	client <- session.carryReplies  <- pg.Cutter <- tracker.reply    <- server
//
// A client's first packet may request TLS (or GSSAPI). The gateway answers that itself: with TLS if it has a
// certificate, otherwise with "no". A client may also begin with TLS at once. The server's URL decides
// whether the gateway uses TLS with the server. Logins pass through: the server checks them. SCRAM bound to a
// TLS channel can't work, because the gateway terminates TLS, so it is not offered unless the gateway has the
// server's certificate.
//
// While clients are held no transaction begins. The gateway then asks the server for the state of each
// session, and logs the session in and restores its state at another server (docs/POSTGRES.md).
//
// Package shadow's mirror uses Accept, Dial and Unbound too.
//
// Reading order:
//
//	controls.go           operations for other processes, with package control's types
//	reach.go, move.go     whether clients could be moved, and moving them
//	state_file.go         the file with the server that clients were moved to
//	metrics.go
//	hold.go, held.go      holding all clients, and the session operations of a hold
//	session.go            one client: its two copy loops, its end
//	drain.go              its end when the gateway shuts down
//	tracker.go            whether a transaction is open
//	read_buffer.go        buffered reads
//	sessionstate.go       session state
//	replacement.go        a session's new connection: restoring its state
//	relogin.go            logging a session in again
//	credentials.go        the passwords and verifiers for that
//	login.go              the client's own login
//	parameter_status.go   the settings that a server reports
//	cancel.go, gateway.go, config.go
//	dial.go               URLs, TLS with the server
//	channel_binding.go    logins bound to a certificate
//	refusals.go           the gateway's errors
//	client_tls.go         a client's first packet, TLS with clients
package postgres
