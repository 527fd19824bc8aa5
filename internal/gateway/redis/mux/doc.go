// Package mux lets many clients of a Redis server share few connections to it. Requests of several clients that come
// at about the same time leave in one write, and the server answers them in one, which costs both sides less than a
// connection for each client.
//
//	client A -> Conn.Write, Commit --\                                   /--> Conn.Read -> client A
//	                                  upstream.out => server => upstream.read
//	client B -> Conn.Write, Commit --/                                   \--> Conn.Read -> client B
//
// All clients of a shared connection have the same [Identity]: login, database and protocol version. Requests that
// need or change other state of a connection, such as MULTI, SUBSCRIBE or a command that blocks, need [Conn.Pin],
// which gives the client a connection of its own until [Conn.Unpin].
//
// Order: a client's requests reach the server in the order of its Commits, and it gets the replies in that order,
// since a server answers the requests of a connection in order. Between a shared and its own connection a client may
// only change when no reply is outstanding.
//
// Fairness: a client has at most MaxOutstanding requests on a shared connection. Replies that it does not read are kept
// for it, within its memory budget; beyond that its session ends. So neither stops the others.
//
//	mux.go       Pool: the connections of each identity
//	conn.go      Conn: one client's connection
//	upstream.go  a shared connection: gathers requests, hands out replies
//	replies.go   finds the ends of replies
//	login.go     gives a new connection its identity
package mux
