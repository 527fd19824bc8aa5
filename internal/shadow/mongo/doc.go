// Package mongo mirrors MongoDB's protocol: OP_MSG, compressed or not, as servers from 5.1 on speak it.
//
// Targets get commands without what belongs to production's sessions: transactions, retried writes and cursors are
// made anew at each target. A command is sent when it has been answered, so what only the answer tells, such as the _id
// that the server has given, is known by then.
//
// Reading order: fit.go (what can't be mirrored), filter.go (what is recorded), recorded.go (which commands are), redact.go (and their values); findings.go and
// check.go (what a run would meet); protocol.go (what the engine
// asks for), address.go (a server's URI), reader.go (bytes of a client's connection to operations), build.go (an operation of a request and
// its answer), transactions.go, keys.go (what a command touches), forms.go (how answers are compared), rewrite.go (commands as targets get
// them), cursors.go, catalog.go (what is known of collections), request.go, classes.go (what becomes of each command), conn.go (a target's
// connection), login.go, answers.go, message.go (frames), documents.go.
package mongo
