package mongo

import (
	"strings"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// traits say what the gateway has to know about a command.
type traits uint16

const (
	// neverCompressed: the protocol forbids it, for secrets travel in it, or they may
	// (setParameter), and so they must not get into dictionaries.
	neverCompressed traits = 1 << iota
	// isHello: the handshake, whose reply says where the servers are.
	isHello
	// largeReply: before anything is known about them, its replies count as worth compressing.
	largeReply
	// namesCollection: the value of the first element is a collection.
	namesCollection
	// readsDocuments: servers answer it with ok only to who may read that collection.
	readsDocuments
	// pipelineReads: the same, if its pipeline begins with documents.
	pipelineReads
	// logsIn: it begins a login by the mechanism that it names.
	logsIn
	// retriedRead: drivers send it again when the connection ends.
	retriedRead
	// endsLogin: its reply may say that the client is logged in.
	endsLogin
	// continues: a cursor's next documents; the collection is an element of its own.
	continues
	// asksGateway: Cinch's commands ask whether this is a gateway.
	asksGateway
)

// commands is the table, by name in lower case. What is not in it is compressed by size and
// by what its replies turn out to be.
var commands = map[string]traits{
	"hello":            isHello | neverCompressed,
	"ismaster":         isHello | neverCompressed,
	"saslstart":        neverCompressed | logsIn | endsLogin,
	"saslcontinue":     neverCompressed | endsLogin,
	"getnonce":         neverCompressed,
	"authenticate":     neverCompressed | logsIn | endsLogin,
	"createuser":       neverCompressed,
	"updateuser":       neverCompressed,
	"copydbsaslstart":  neverCompressed,
	"copydbgetnonce":   neverCompressed,
	"copydb":           neverCompressed,
	"setparameter":     neverCompressed,
	"find":             largeReply | namesCollection | readsDocuments | retriedRead,
	"aggregate":        largeReply | namesCollection | pipelineReads | retriedRead,
	"getmore":          largeReply | continues,
	"distinct":         largeReply | namesCollection | readsDocuments | retriedRead,
	"mapreduce":        largeReply | namesCollection,
	"listcollections":  largeReply | retriedRead,
	"listindexes":      largeReply | namesCollection | retriedRead,
	"listdatabases":    largeReply | retriedRead,
	"serverstatus":     largeReply,
	"explain":          largeReply,
	"currentop":        largeReply,
	"getlog":           largeReply,
	"top":              largeReply,
	"insert":           namesCollection,
	"update":           namesCollection,
	"delete":           namesCollection,
	"findandmodify":    namesCollection | readsDocuments,
	"count":            namesCollection | readsDocuments | retriedRead,
	"killcursors":      namesCollection,
	"create":           namesCollection,
	"createindexes":    namesCollection,
	"drop":             namesCollection,
	"dropindexes":      namesCollection,
	"collstats":        largeReply | namesCollection,
	"validate":         largeReply | namesCollection,
	"collmod":          namesCollection,
	"replsetgetstatus": largeReply,

	strings.ToLower(wire.GatewayCommand): asksGateway,
}

// maxCommandName is the length in bytes of the longest name that the table can hold.
const maxCommandName = 24

// traitsOf looks a command up; case does not matter. It does not allocate.
func traitsOf(name []byte) traits {
	if len(name) > maxCommandName {
		return 0
	}
	var lower [maxCommandName]byte
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return commands[string(lower[:len(name)])]
}
