package redis

import (
	"errors"
	"strconv"
	"time"
)

// What is held, and how long is waited.

// bufferBytes is what a busy connection holds in each direction. Requests and replies
// that fit are handled in place; larger ones are streamed, or staged under the budget.
const bufferBytes = 32 << 10

// maxIdleArgs is for how many sealed values of a request an idle session keeps memory.
const maxIdleArgs = 64

// freeBytes is up to where a value needs no budget: it is what a connection's buffers hold
// anyway.
const freeBytes = bufferBytes

// firstPiece of a long argument has room at once, and each further piece growth times as much as
// has come: so memory follows what comes, and not what is declared.
const (
	firstPiece = 64 << 10
	growth     = 4
)

// patience is how long the request pump waits before it sees to it that the reply pump
// can move.
const patience = 20 * time.Millisecond

// reservePatience is how many times Stall a request that must be collected waits.
const reservePatience = 5

// sealPatience is how long a value waits that could also go as it is.
const sealPatience = 200 * time.Millisecond

// askTimeout bounds every question on the second connection.
const askTimeout = 5 * time.Second

var (
	errGone    = errors.New("redis: session has ended")
	errNoRoom  = errors.New("no memory is free for this command at the moment (memory.budget), try again")
	errTooLong = errors.New("redis: request is too long to be collected")
)

var crlf = []byte("\r\n")

func itoa(n int) []byte { return strconv.AppendInt(nil, int64(n), 10) }

func swallow([]byte) error { return nil }

// maxNodesBytes bounds what is held of a reply that is rewritten: all of CLUSTER NODES, or
// one element of the others.
const maxNodesBytes = 16 << 20

// maxNameBytes is more than the longest command name; longer ones are unknown.
const maxNameBytes = 32
