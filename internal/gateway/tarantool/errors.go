package tarantool

import (
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// errorClasses names violations of the protocol for the log and the metrics.
var errorClasses = gateway.ErrorClasses{
	{gateway.ErrUnauthenticated, "stranger"},
	{wire.ErrTooLarge, "too_large"},
	{wire.ErrMalformed, "malformed"},
	{io.ErrUnexpectedEOF, "truncated"},
}

// refusal is an error that the gateway sends in place of the server's reply.
type refusal struct {
	code   wire.Type
	reason string // the reason under which it is counted
	text   string
}

func (r *refusal) Error() string { return r.text }

// unsupported returns an error of the kind that the server has for what it does not support.
func unsupported(what, format string) *refusal {
	return &refusal{wire.ErrUnsupported, what, "cinch does not support " + format}
}

// wrongVersion returns the server's error for a request that names another version of the schema than the
// current one.
func wrongVersion(current uint64, r *request) *refusal {
	return &refusal{wire.ErrSchemaVersion, "splice", fmt.Sprintf("Wrong schema version, current: %d, in request: %d", current, r.header.Schema)}
}

var (
	noMemory = &refusal{wire.ErrNoMemory, "budget", "cinch: the memory budget is used up (memory.budget): try again"}
	// schemaUnknown refuses requests that might cut an envelope.
	schemaUnknown = &refusal{wire.ErrSystem, "splice", "cinch: the schema could not be read yet, and the request could cut compressed values: try again later"}
	malformed     = &refusal{wire.ErrInvalid, "malformed", "Invalid MsgPack - packet body"}
)
