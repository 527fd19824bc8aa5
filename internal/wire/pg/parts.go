package pg

import (
	"bytes"
	"encoding/binary"
)

// String reads a string that ends with a zero, and what follows it.
func String(b []byte) (s string, rest []byte, err error) {
	raw, rest, ok := bytes.Cut(b, zero)
	if !ok {
		return "", nil, ErrProtocol
	}
	return string(raw), rest, nil
}

// TwoStrings reads what a Parse (statement, SQL) and a Bind (portal, statement) begin with.
func TwoStrings(b []byte) (first, second string, err error) {
	first, rest, err := String(b)
	if err != nil {
		return "", "", err
	}
	second, _, err = String(rest)
	return first, second, err
}

// Code is the SQLSTATE of an ErrorResponse.
func Code(body []byte) string {
	for len(body) > 1 && body[0] != 0 {
		value, rest, ok := bytes.Cut(body[1:], zero)
		if !ok {
			break
		}
		if body[0] == 'C' {
			return string(value)
		}
		body = rest
	}
	return ""
}

// Column is what a RowDescription says of one.
type Column struct {
	Name      []byte // within the message
	Table     uint32 // 0: an expression
	Attribute uint16
	Type      uint32
	Format    uint16
}

const columnBytes = 18 // behind its name

// Columns reads a RowDescription.
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

// Fields calls each with the values of a DataRow; nil is NULL.
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
