package pg

import (
	"bytes"
	"encoding/binary"
)

// String parses a string that ends with a zero byte, and returns what follows it.
func String(b []byte) (s string, rest []byte, err error) {
	raw, rest, ok := bytes.Cut(b, zero)
	if !ok {
		return "", nil, ErrProtocol
	}
	return string(raw), rest, nil
}

// TwoStrings parses the two strings at the beginning of a Parse (statement, SQL), a Bind (portal, statement)
// or a ParameterStatus (name, value).
func TwoStrings(b []byte) (first, second string, err error) {
	first, rest, err := String(b)
	if err != nil {
		return "", "", err
	}
	second, _, err = String(rest)
	return first, second, err
}

// Code returns the SQLSTATE of an ErrorResponse.
func Code(body []byte) string { return errorField(body, 'C') }

// Text returns the message of an ErrorResponse.
func Text(body []byte) string { return errorField(body, 'M') }

func errorField(body []byte, field byte) string {
	for len(body) > 1 && body[0] != 0 {
		value, rest, ok := bytes.Cut(body[1:], zero)
		if !ok {
			break
		}
		if body[0] == field {
			return string(value)
		}
		body = rest
	}
	return ""
}

// Codes of an Authentication message.
const (
	AuthOK           = 0
	AuthCleartext    = 3
	AuthMD5          = 5
	AuthSASL         = 10
	AuthSASLContinue = 11
	AuthSASLFinal    = 12
)

// Auth returns the code of an Authentication message and what follows it.
func Auth(body []byte) (code uint32, rest []byte, err error) {
	if len(body) < 4 {
		return 0, nil, ErrProtocol
	}
	return binary.BigEndian.Uint32(body), body[4:], nil
}

// AppendAuth appends an Authentication message.
func AppendAuth(dst []byte, code uint32, rest []byte) []byte {
	return Append(dst, Authentication, binary.BigEndian.AppendUint32(nil, code), rest)
}

// WithoutBinding returns a list of SASL mechanisms without those that are bound to a TLS channel.
func WithoutBinding(list []byte) []byte {
	out := make([]byte, 0, len(list))
	for _, name := range bytes.SplitAfter(list, zero) {
		if !bytes.HasSuffix(name, []byte("-PLUS\x00")) {
			out = append(out, name...)
		}
	}
	return out
}

// Column is one column of a RowDescription.
type Column struct {
	Name      []byte // within the message
	Table     uint32 // 0: an expression
	Attribute uint16
	Type      uint32
	Format    uint16
}

const columnBytes = 18 // after its name

// Columns parses a RowDescription.
func Columns(body []byte) ([]Column, error) {
	if len(body) < 2 {
		return nil, ErrProtocol
	}
	n, rest := int(binary.BigEndian.Uint16(body)), body[2:]
	out := make([]Column, 0, min(n, len(rest)/columnBytes))
	for range n {
		name, after, ok := bytes.Cut(rest, zero)
		if !ok || len(after) < columnBytes {
			return nil, ErrProtocol
		}
		out = append(out, Column{
			Name: name, Table: binary.BigEndian.Uint32(after), Attribute: binary.BigEndian.Uint16(after[4:]),
			Type: binary.BigEndian.Uint32(after[6:]), Format: binary.BigEndian.Uint16(after[16:]),
		})
		rest = after[columnBytes:]
	}
	return out, nil
}

// Fields calls each with the values of a DataRow; nil is NULL. The values share body's memory.
func Fields(body []byte, each func(i int, value []byte)) error {
	if len(body) < 2 {
		return ErrProtocol
	}
	n, rest := int(binary.BigEndian.Uint16(body)), body[2:]
	for i := range n {
		if len(rest) < 4 {
			return ErrProtocol
		}
		size := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if size < 0 {
			each(i, nil)
			continue
		}
		if int(size) > len(rest) {
			return ErrProtocol
		}
		each(i, rest[:size:size])
		rest = rest[size:]
	}
	return nil
}

// ResultFormats returns the result formats of a Bind: none, one for all columns, or one for each. It returns
// nil if body is malformed.
func ResultFormats(body []byte) (out []int16) {
	for range 2 { // portal, statement
		_, rest, ok := bytes.Cut(body, zero)
		if !ok {
			return nil
		}
		body = rest
	}
	_, body = shorts(body) // formats of the parameters
	if len(body) < 2 {
		return nil
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	for range n {
		if len(body) < 4 {
			return nil
		}
		size := int32(binary.BigEndian.Uint32(body))
		if body = body[4:]; size > 0 {
			if int(size) > len(body) {
				return nil
			}
			body = body[size:]
		}
	}
	out, _ = shorts(body)
	return out
}

// shorts parses a count and that many 16-bit numbers.
func shorts(b []byte) (out []int16, rest []byte) {
	if len(b) < 2 {
		return nil, nil
	}
	n := int(binary.BigEndian.Uint16(b))
	if b = b[2:]; len(b) < 2*n {
		return nil, nil
	}
	for i := range n {
		out = append(out, int16(binary.BigEndian.Uint16(b[2*i:])))
	}
	return out, b[2*n:]
}

// FormatOf returns the format of a column, 0 for text, given the result formats of a Bind.
func FormatOf(formats []int16, column int) int16 {
	switch {
	case len(formats) == 1:
		return formats[0]
	case column < len(formats):
		return formats[column]
	}
	return 0
}
