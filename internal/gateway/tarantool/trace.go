package tarantool

import (
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cinch-layer/cinch/internal/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// tracing makes the spans of one session's requests. A request that is not traced is a nil one: the clock is not read for
// it, and attributes are made after that has been asked. Those that wait are ended with the connection, wherever they are.
type tracing struct {
	by              *trace.Tracer // nil: no request is traced
	gateway, server string
	open            trace.Connection
}

// begin begins the trace of a request that has come now, after such a wait for memory. What is not answered has none.
func (t *tracing) begin(kind wire.Type, h handling, now time.Time, waited time.Duration) *trace.Command {
	if t.by == nil || h == oneWay || h == replicate {
		return nil
	}
	c := t.by.Command(&t.open, systemName, now, waited)
	if c == nil {
		return nil
	}
	c.Set(attribute.String("db.system.name", systemName), attribute.String("cinch.gateway", t.gateway))
	if name := operations[kind]; name != "" {
		c.Is(name, attribute.String("db.operation.name", name))
	}
	c.Goes(attribute.String("server.address", t.server))
	return c
}

// systemName is that of spans for which there is no better one, too.
const systemName = "tarantool"

// operations are the names of requests, as the documentation of the protocol has them.
var operations = map[wire.Type]string{
	wire.Select: "select", wire.Insert: "insert", wire.Replace: "replace", wire.Update: "update", wire.Delete: "delete",
	wire.Upsert: "upsert", wire.Call: "call", wire.Call16: "call", wire.Eval: "eval", wire.Execute: "execute", wire.Prepare: "prepare",
	wire.Begin: "begin", wire.Commit: "commit", wire.Rollback: "rollback", wire.Auth: "auth", wire.ID: "id", wire.Ping: "ping", wire.Nop: "nop",
}

// traceSince adds a span of something that has been done since then.
func traceSince(c *trace.Command, name string, then time.Time) {
	if c != nil {
		c.Part(name, then, time.Since(then))
	}
}

// traceWait adds a span of a wait for others since then, if it was one.
func traceWait(c *trace.Command, then time.Time) {
	if c == nil {
		return
	}
	if took := time.Since(then); took > shortWait {
		c.Part("wait", then, took)
	}
}

// shortWait is what finding nothing to wait for takes.
const shortWait = 10 * time.Microsecond

// traceReply records that the reply was there at a time, after such a wait for memory. moved says that it is none for
// the client: the server has another schema, and is asked again.
func traceReply(c *trace.Command, moved bool, at time.Time, waited time.Duration) {
	if c == nil {
		return
	}
	class := ""
	if moved {
		class = "schema_changed"
	}
	c.Answered(class, at)
	c.Part("wait reply", at.Add(-waited), waited)
}

// traceRefused ends a request that the gateway answers with an error.
func traceRefused(c *trace.Command, refused *refusal) {
	if c != nil {
		c.Set(attribute.String("db.response.status_code", strconv.Itoa(int(refused.code))))
		c.End("refused")
	}
}

// traceEnded ends a request whose reply of that type the client has, or would have had but for an error.
func traceEnded(c *trace.Command, reply wire.Type, err error) {
	switch {
	case c == nil:
		return
	case err != nil:
		c.End(trace.ConnectionEnded)
	case reply&wire.ErrorFlag != 0:
		code := strconv.Itoa(int(reply &^ wire.ErrorFlag))
		c.Fails(code, attribute.String("db.response.status_code", code))
	}
	c.End("")
}
