package pg

import (
	"encoding/binary"
	"errors"
)

// Types of messages that clients send.
const (
	Query         = 'Q'
	Parse         = 'P'
	Bind          = 'B'
	Describe      = 'D'
	Execute       = 'E'
	Close         = 'C'
	Flush         = 'H'
	Sync          = 'S'
	FunctionCall  = 'F'
	Terminate     = 'X'
	Password      = 'p' // all responses to authentication requests
	CopyData      = 'd' // servers send it too
	CopyDone      = 'c'
	CopyFail      = 'f'
	HeaderBytes   = 5
	lengthBytes   = 4
	maxBodyLength = 1<<30 - 1 // the server's limit
)

// Types of messages that servers send.
const (
	Authentication       = 'R'
	ReadyForQuery        = 'Z'
	RowDescription       = 'T'
	ParameterDescription = 't'
	DataRow              = 'D'
	CommandComplete      = 'C'
	EmptyQueryResponse   = 'I'
	PortalSuspended      = 's'
	NoData               = 'n'
	ErrorResponse        = 'E'
	NoticeResponse       = 'N'
	NotificationResponse = 'A'
	ParameterStatus      = 'S'
	BackendKeyData       = 'K'
	CopyInResponse       = 'G'
	CopyOutResponse      = 'H'
	CopyBothResponse     = 'W'
)

// Message is one message of a connection. It shares the memory of the bytes that it was cut from.
type Message struct {
	Type byte
	Body []byte
	Raw  []byte // with type and length
}

// ErrProtocol means bytes that violate the protocol.
var ErrProtocol = errors.New("pg: malformed message")

// Cut returns the message that b begins with; ok is false when it is not complete.
func Cut(b []byte) (m Message, ok bool, err error) {
	if len(b) < HeaderBytes {
		return m, false, nil
	}
	n := binary.BigEndian.Uint32(b[1:])
	if n < lengthBytes || n > maxBodyLength {
		return m, false, ErrProtocol
	}
	if uint32(len(b)-1) < n {
		return m, false, nil
	}
	raw := b[: 1+n : 1+n]
	return Message{Type: raw[0], Body: raw[HeaderBytes:], Raw: raw}, true, nil
}

// Append appends a message to dst.
func Append(dst []byte, kind byte, body ...[]byte) []byte {
	n := lengthBytes
	for _, b := range body {
		n += len(b)
	}
	dst = binary.BigEndian.AppendUint32(append(dst, kind), uint32(n))
	for _, b := range body {
		dst = append(dst, b...)
	}
	return dst
}

// AppendQuery appends a simple query.
func AppendQuery(dst []byte, sql string) []byte {
	return Append(dst, Query, []byte(sql), []byte{0})
}
