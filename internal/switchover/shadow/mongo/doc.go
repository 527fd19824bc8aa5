// Package mongo mirrors MongoDB's protocol: OP_MSG, compressed or not, as used by servers from 5.1 on.
//
// Targets get commands without the fields of production's sessions: each target has its own transactions,
// retryable writes and cursors. A command is sent when it has been answered, so facts that only the answer
// tells, such as the _id chosen by the server, are known by then.
//
// Reading order: recordfilter.go (what is recorded), recordplan.go (which commands), redact.go (their
// values); check.go (servers that can't be mirrored, problems that a run would have), survey.go (what servers
// report), size.go (of the data at targets); protocol.go (interface of the engine), address.go (a server's
// URI), reader.go (bytes of a client's connection to operations), operation.go (makes an operation of a
// request and its answer), transactions.go, keys.go (what a command touches), answerforms.go (how answers are
// compared), rewrite.go (commands as targets get them), cursors.go, catalog.go (properties of collections),
// request.go, classes.go (how each command is mirrored), conn.go (a target's connection), login.go,
// answers.go, message.go (frames), bson.go.
package mongo
