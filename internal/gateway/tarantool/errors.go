package tarantool

import (
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// errorClasses names violations of the protocol for the log and the metrics.
var errorClasses = gateway.ErrorClasses{
	{gateway.ErrUnauthenticated, "unauthenticated"},
	{wire.ErrTooLarge, "too_large"},
	{wire.ErrMalformed, "malformed"},
	{io.ErrUnexpectedEOF, "truncated"},
}

// refusal is an error that the gateway sends in place of the server's reply.
type refusal struct {
	code   wire.Type
	reason string // label for Stats.Guarded
	text   string
}

func (r *refusal) Error() string { return r.text }

// unsupported returns the error ER_UNSUPPORTED, counted under reason. text ends its message.
func unsupported(reason, text string) *refusal {
	return &refusal{wire.ErrUnsupported, reason, "cinch does not support " + text}
}

// wrongVersion returns the server's error for a request that names another version of the schema than current.
func wrongVersion(current uint64, r *request) *refusal {
	return &refusal{wire.ErrSchemaVersion, "splice", fmt.Sprintf("Wrong schema version, current: %d, in request: %d", current, r.header.Schema)}
}

var (
	noMemory = &refusal{wire.ErrNoMemory, "budget", "cinch: the memory budget is used up (memory.budget): try again"}
	// schemaUnknown is the error for requests that might cut an envelope while no schema has been read.
	schemaUnknown = &refusal{wire.ErrSystem, "splice", "cinch: the schema could not be read yet, and the request could cut compressed values: try again later"}
	malformed     = &refusal{wire.ErrInvalid, "malformed", "Invalid MsgPack - packet body"}
)
