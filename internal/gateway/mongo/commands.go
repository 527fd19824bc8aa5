package mongo

import (
	"strings"

	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// traits are the properties of a command that matter to the gateway.
type traits uint16

const (
	// neverCompressed: the protocol forbids compressing it because it contains secrets, or it may contain
	// some (setParameter).
	neverCompressed traits = 1 << iota
	// isHello: the handshake, whose reply contains the addresses of the servers.
	isHello
	// largeReply: its replies count as worth compressing until some have been measured.
	largeReply
	// namesCollection: the value of the first element names the collection.
	namesCollection
	// startsLogin: it begins a login with the mechanism that it names.
	startsLogin
	// retriedRead: drivers send it again if the connection is lost.
	retriedRead
	// endsLogin: its reply may complete a login.
	endsLogin
	// continuesCursor: it asks for a cursor's next documents; a separate element names the collection.
	continuesCursor
	// isGatewayQuery: Cinch's commands ask whether this is a gateway.
	isGatewayQuery
	// wrapsCommand: the value of the first element is another command.
	wrapsCommand
	// listsNamespaces: nsInfo has the namespaces that it writes to.
	listsNamespaces
	// anyNamespace: it, or its reply, may have documents of namespaces that it does not name.
	anyNamespace
)

// commands maps names in lower case to traits. For other commands, compression depends on their size and on
// their measured replies.
var commands = map[string]traits{
	"hello":            isHello | neverCompressed,
	"ismaster":         isHello | neverCompressed,
	"saslstart":        neverCompressed | startsLogin | endsLogin,
	"saslcontinue":     neverCompressed | endsLogin,
	"getnonce":         neverCompressed,
	"authenticate":     neverCompressed | startsLogin | endsLogin,
	"createuser":       neverCompressed,
	"updateuser":       neverCompressed,
	"usersinfo":        neverCompressed, // its reply has credentials with showCredentials
	"copydbsaslstart":  neverCompressed,
	"copydbgetnonce":   neverCompressed,
	"copydb":           neverCompressed,
	"setparameter":     neverCompressed,
	"find":             largeReply | namesCollection | retriedRead,
	"aggregate":        largeReply | namesCollection | retriedRead,
	"getmore":          largeReply | continuesCursor,
	"distinct":         largeReply | namesCollection | retriedRead,
	"mapreduce":        largeReply | namesCollection,
	"listcollections":  largeReply | retriedRead,
	"listindexes":      largeReply | namesCollection | retriedRead,
	"listdatabases":    largeReply | retriedRead,
	"serverstatus":     largeReply,
	"explain":          largeReply | wrapsCommand,
	"bulkwrite":        listsNamespaces,
	"currentop":        largeReply | anyNamespace,
	"applyops":         anyNamespace,
	"getlog":           largeReply | anyNamespace, // it has slow commands
	"top":              largeReply,
	"insert":           namesCollection,
	"update":           namesCollection,
	"delete":           namesCollection,
	"findandmodify":    namesCollection,
	"count":            namesCollection | retriedRead,
	"killcursors":      namesCollection,
	"create":           namesCollection,
	"createindexes":    namesCollection,
	"drop":             namesCollection,
	"dropindexes":      namesCollection,
	"collstats":        largeReply | namesCollection,
	"validate":         largeReply | namesCollection,
	"collmod":          namesCollection,
	"replsetgetstatus": largeReply,

	strings.ToLower(wire.GatewayCommand): isGatewayQuery,
}

// maxCommandName is the length in bytes of the longest name that the table can hold.
const maxCommandName = 24

// traitsOf returns the traits of a command. It ignores case and does not allocate.
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
