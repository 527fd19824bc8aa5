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

// MessageBytes returns the length of the message that b begins with, type and length included. It is 0 if b has less
// than a header.
func MessageBytes(b []byte) (int, error) {
	if len(b) < HeaderBytes {
		return 0, nil
	}
	n := binary.BigEndian.Uint32(b[1:])
	if n < lengthBytes || n > maxBodyLength {
		return 0, ErrProtocol
	}
	return 1 + int(n), nil
}

// Cut returns the message that b begins with; ok is false when it is not complete.
func Cut(b []byte) (m Message, ok bool, err error) {
	total, err := MessageBytes(b)
	if total == 0 || len(b) < total {
		return m, false, err
	}
	raw := b[:total:total]
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
