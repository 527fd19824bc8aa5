package mongo

import (
	"fmt"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// reply is one message of the server's. Its bytes live until it has been handled.
type reply struct {
	message           // as it came
	body     []byte   // the same without compression
	msg      wire.Msg // of an OP_MSG
	document wire.Span
	noDoc    error // why an OP_REPLY has no document
	more     bool  // others follow without a request
}

var errNoReply = fmt.Errorf("%w: no reply, but opcode", wire.ErrMalformed)

// parse looks at a message, whose bytes without compression are body.
func (r *reply) parse(m message, body []byte) error {
	r.message, r.body, r.document, r.noDoc, r.more = m, body, wire.Span{}, nil, false
	switch m.header.OpCode {
	case wire.OpMsg:
		if err := r.msg.Parse(body); err != nil {
			return err
		}
		r.document, r.more = r.msg.Body, r.msg.Flags&wire.MoreToCome != 0
	case wire.OpReply:
		r.document, r.noDoc = wire.ParseReply(body)
	default:
		return fmt.Errorf("%w %d", errNoReply, m.header.OpCode)
	}
	return nil
}

// doc is the document; nil or empty: there is none.
func (r *reply) doc() []byte { return r.document.Of(r.body) }

// replaced returns the reply with another document, in a buffer of the pool's.
func (r *reply) replaced(doc []byte) []byte {
	hasChecksum := r.header.OpCode == wire.OpMsg && r.msg.Flags&wire.ChecksumPresent != 0
	return wire.Replace(gateway.GetBuffer(len(r.body)-r.document.Len+len(doc)), r.body, r.document, doc, hasChecksum)
}
