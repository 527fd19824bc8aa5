package postgres

import (
	"errors"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// SQLSTATEs of what the gateway says itself.
const (
	codeShutdown    = "57P01" // admin_shutdown: clients know it as the end of a server that may be connected to again
	codeCancelled   = "57014" // query_canceled; of the server's
	codeUnreachable = "57P03" // cannot_connect_now
	codeTooMany     = "53300" // too_many_connections
	codeProtocol    = "08P01" // protocol_violation
	codeLogin       = "28000" // invalid_authorization_specification
)

// fatal is an error after which a connection ends.
func fatal(code, text string) []byte {
	var fields []byte
	for _, f := range []string{"SFATAL", "VFATAL", "C" + code, "M" + text} {
		fields = append(append(fields, f...), 0)
	}
	return pg.Append(nil, pg.ErrorResponse, append(fields, 0))
}

// errorClasses are the violations of the protocol that are counted and logged.
var errorClasses = gateway.ErrorClasses{
	{ErrFirstPacket, "protocol"},
	{pg.ErrProtocol, "protocol"},
}

// errPlain is a client that is to use TLS.
var errPlain = errors.New("the gateway takes connections by TLS only")

// errEnded ends a session that was told so, or that has nothing to be told.
var errEnded = errors.New("the session has ended")
