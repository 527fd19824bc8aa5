package pg

import (
	"bytes"
	"encoding/binary"
)

// Codes of a client's first packet. Any other code is the protocol version of a startup.
const (
	CancelRequest = 80877102
	SSLRequest    = 80877103
	GSSRequest    = 80877104
)

// MaxStartupBytes limits the first packet, as PostgreSQL does.
const MaxStartupBytes = 10000

// StartupHeaderBytes is the size of the length and the code.
const StartupHeaderBytes = 8

// StartupHead parses the length, itself included, and the code of a first packet. b must have
// StartupHeaderBytes or more.
func StartupHead(b []byte) (length int, code uint32, err error) {
	n := binary.BigEndian.Uint32(b)
	if n < StartupHeaderBytes || n > MaxStartupBytes {
		return 0, 0, ErrProtocol
	}
	return int(n), binary.BigEndian.Uint32(b[4:]), nil
}

// StartupParameters parses the names and values of a startup.
func StartupParameters(packet []byte) (map[string]string, error) {
	out := map[string]string{}
	for rest := packet[StartupHeaderBytes:]; len(rest) > 0 && rest[0] != 0; {
		name, after, ok := bytes.Cut(rest, zero)
		value, next, closed := bytes.Cut(after, zero)
		if !ok || !closed {
			return nil, ErrProtocol
		}
		out[string(name)] = string(value)
		rest = next
	}
	return out, nil
}

// AppendStartup appends a startup of version 3.0; parameters alternate names and values.
func AppendStartup(dst []byte, parameters ...string) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0, 0, 3, 0, 0)
	for _, p := range parameters {
		dst = append(append(dst, p...), 0)
	}
	dst = append(dst, 0)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at))
	return dst
}

// AppendSSLRequest appends a request for TLS.
func AppendSSLRequest(dst []byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(dst, StartupHeaderBytes), SSLRequest)
}

// AppendCancel appends a cancellation; key is the body of the server's BackendKeyData.
func AppendCancel(dst, key []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(StartupHeaderBytes+len(key)))
	return append(binary.BigEndian.AppendUint32(dst, CancelRequest), key...)
}

var zero = []byte{0}
