package postgres

import (
	"errors"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// SQLSTATEs of the gateway's errors.
const (
	codeShutdown    = "57P01" // admin_shutdown: clients know it and may connect again
	codeCancelled   = "57014" // query_canceled; only the server sends it
	codeUnreachable = "57P03" // cannot_connect_now
	codeTooMany     = "53300" // too_many_connections
	codeProtocol    = "08P01" // protocol_violation
	codeLogin       = "28000" // invalid_authorization_specification
)

// fatal returns the ErrorResponse after which a connection ends.
func fatal(code, text string) []byte {
	var fields []byte
	for _, f := range []string{"SFATAL", "VFATAL", "C" + code, "M" + text} {
		fields = append(append(fields, f...), 0)
	}
	return pg.Append(nil, pg.ErrorResponse, append(fields, 0))
}

// errorClasses lists the protocol violations that are counted and logged.
var errorClasses = gateway.ErrorClasses{
	{ErrFirstPacket, "protocol"},
	{pg.ErrProtocol, "protocol"},
}

// errPlain refuses a client without TLS where TLS is required.
var errPlain = errors.New("the gateway accepts connections by TLS only")

// errEnded ends a session whose client has its last message already, or needs none.
var errEnded = errors.New("the session has ended")
