// Package postgres is the gateway for PostgreSQL: it passes connections through to a server, and knows of each what it is about.
//
//	client -> session.carryRequests -> wire/pg.Cutter -> tracker.asked    -> server
//	client <- session.carryReplies  <- wire/pg.Cutter <- tracker.answered <- server
//
// A client's first packet may ask for TLS (or GSSAPI). That question is for this hop, so it is answered here: with TLS where there is a
// certificate, otherwise with "no"; a client may begin with TLS at once, too. The server is asked for TLS by the URL that names it. Logins
// pass through: the server checks them. SCRAM works as long as it is not bound to a TLS channel, which has two ends here, so
// that kind is not offered.
//
// While clients are held no transaction begins. What each session keeps between transactions is then asked of the server, and the session is
// logged in and made again at another one (docs/POSTGRES.md).
//
// The mirror of package shadow begins its connections with Accept, Dial and Unbound.
//
// Reading order: controls.go (what is asked from outside, in package control's words), reach.go, move.go, remember.go (where a move has led), metrics.go,
// hold.go, held.go (a session, as one who holds it sees it), session.go (one client: its login, two pumps, its end), tracker.go (what is
// under way), source.go (bytes of a connection), keeps.go (what a session keeps), credentials.go (logging it in again), login.go, statuses.go,
// cancel.go, gateway.go (the seam), config.go, dial.go (URLs, TLS with the server), binding.go (logins that are bound to a certificate),
// refusals.go (errors of ours), accept.go (TLS with clients).
package postgres
