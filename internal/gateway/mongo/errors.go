package mongo

import (
	"io"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// errorClasses maps errors to the names under which they are counted and logged. The first match counts, so errors that
// wrap wire.ErrMalformed come before it.
var errorClasses = gateway.ErrorClasses{
	{gateway.ErrUnauthenticated, "unauthenticated"},
	{wire.ErrNested, "nested"},
	{wire.ErrTooLarge, "too_large"},
	{wire.ErrOpCode, "opcode"},
	{wire.ErrChecksum, "checksum"},
	{wire.ErrMalformed, "malformed"},
	{codec.ErrCorrupt, "corrupt"},
	{errCompressor, "compressor"},
	{io.ErrUnexpectedEOF, "truncated"},
}

// errorDoc returns the document of an error reply.
func errorDoc(code int32, name, text string) []byte {
	b := []byte{0, 0, 0, 0}
	b = bsoncore.AppendDoubleElement(b, "ok", 0)
	b = bsoncore.AppendStringElement(b, "errmsg", text)
	b = bsoncore.AppendInt32Element(b, "code", code)
	b = bsoncore.AppendStringElement(b, "codeName", name)
	return wire.FinishDocument(b, 0)
}

// shutdownError returns the error document that a server sends when it shuts down to clients that wait for a
// cursor's next documents. The label makes drivers resume a change stream; in other replies it has no effect.
func shutdownError() []byte {
	doc := errorDoc(11600, "InterruptedAtShutdown", "cinch: interrupted, the gateway is shutting down")
	doc = doc[:len(doc)-1]
	index, doc := bsoncore.AppendArrayElementStart(doc, "errorLabels")
	doc = bsoncore.AppendStringElement(doc, "0", "ResumableChangeStreamError")
	doc, _ = bsoncore.AppendArrayEnd(doc, index)
	return wire.FinishDocument(doc, 0)
}

// gatewayReply returns the document of the reply to wire.GatewayCommand.
func gatewayReply(name, upstreamURL string) []byte {
	b := []byte{0, 0, 0, 0}
	b = bsoncore.AppendStringElement(b, wire.GatewayCommand, name)
	b = bsoncore.AppendStringElement(b, wire.GatewayUpstream, upstreamURL)
	b = bsoncore.AppendDoubleElement(b, "ok", 1)
	return wire.FinishDocument(b, 0)
}

// replyTo returns a reply with document doc to the request with header h, in the same message format.
func replyTo(h wire.Header, doc []byte) []byte {
	out := wire.Header{RequestID: h.RequestID, ResponseTo: h.RequestID, OpCode: wire.OpMsg}
	prefix := []byte{0, 0, 0, 0, 0} // flags, and the section kind
	if h.OpCode == wire.OpQuery {
		out.OpCode = wire.OpReply
		prefix = make([]byte, 20) // flags, cursor, from, number
		prefix[16] = 1
	}
	b := append(wire.AppendHeader(nil, out), prefix...)
	b = append(b, doc...)
	wire.PutLength(b)
	return b
}
