package tarantool

import (
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cinch-layer/cinch/internal/gateway/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// tracing creates the spans of one session's requests. The trace.Command of a request that is not traced is nil, so
// that neither the clock is read nor attributes are allocated for it. Spans of requests that get no reply end with the
// connection.
type tracing struct {
	tracer          *trace.Tracer // nil: no request is traced
	gateway, server string
	conn            trace.Connection
}

// begin begins the trace of a request that arrived at now, after it waited for memory for the time waited. It returns
// nil if the request is not traced, as are types of requests that have no reply.
func (t *tracing) begin(kind wire.Type, h handling, now time.Time, waited time.Duration) *trace.Command {
	if t.tracer == nil || h == noReply || h == replication {
		return nil
	}
	c := t.tracer.StartCommand(&t.conn, systemName, now, waited)
	if c == nil {
		return nil
	}
	c.Set(attribute.String("db.system.name", systemName), attribute.String("cinch.gateway", t.gateway))
	if name := operations[kind]; name != "" {
		c.SetName(name, attribute.String("db.operation.name", name))
	}
	c.SetUpstreamAttributes(attribute.String("server.address", t.server))
	return c
}

// systemName is the db.system.name, and the name of spans that have no better one.
const systemName = "tarantool"

// operations holds the names of types of requests, from the documentation of the protocol.
var operations = map[wire.Type]string{
	wire.Select: "select", wire.Insert: "insert", wire.Replace: "replace", wire.Update: "update", wire.Delete: "delete",
	wire.Upsert: "upsert", wire.Call: "call", wire.Call16: "call", wire.Eval: "eval", wire.Execute: "execute", wire.Prepare: "prepare",
	wire.Begin: "begin", wire.Commit: "commit", wire.Rollback: "rollback", wire.Auth: "auth", wire.ID: "id", wire.Ping: "ping", wire.Nop: "nop",
}

// traceSince adds a span from then until now.
func traceSince(c *trace.Command, name string, then time.Time) {
	if c != nil {
		c.AddSpan(name, then, time.Since(then))
	}
}

// traceWait adds a span for a wait that began at then, unless it was not longer than shortWait.
func traceWait(c *trace.Command, then time.Time) {
	if c == nil {
		return
	}
	if took := time.Since(then); took > shortWait {
		c.AddSpan("wait", then, took)
	}
}

// shortWait is longer than it takes to find that there is nothing to wait for.
const shortWait = 10 * time.Microsecond

// traceReply records that the reply arrived at the time at, after it waited for memory for the time waited.
// schemaChanged means that the server had another schema, so the reply is not for the client and the request is sent
// again.
func traceReply(c *trace.Command, schemaChanged bool, at time.Time, waited time.Duration) {
	if c == nil {
		return
	}
	class := ""
	if schemaChanged {
		class = "schema_changed"
	}
	c.EndUpstream(class, at)
	c.AddSpan("wait reply", at.Add(-waited), waited)
}

// traceRefused ends a request that the gateway answers with an error.
func traceRefused(c *trace.Command, refused *refusal) {
	if c != nil {
		c.Set(attribute.String("db.response.status_code", strconv.Itoa(int(refused.code))))
		c.End("refused")
	}
}

// traceEnded ends a request after its reply of that type was sent to the client, or sending failed with err.
func traceEnded(c *trace.Command, reply wire.Type, err error) {
	switch {
	case c == nil:
		return
	case err != nil:
		c.End(trace.ConnectionEnded)
	case reply&wire.ErrorFlag != 0:
		code := strconv.Itoa(int(reply &^ wire.ErrorFlag))
		c.RecordError(code, attribute.String("db.response.status_code", code))
	}
	c.End("")
}
