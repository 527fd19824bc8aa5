package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors of received hellos and frames.
var (
	ErrMagic     = errors.New("link: the peer is no gateway that accepts links")
	ErrVersion   = errors.New("link: no common version")
	ErrMalformed = errors.New("link: malformed")
)

// Version is the version of the protocol that this package implements.
const Version = 1

// Limits of windows, which are log2 of bytes; 0 stands for no window.
const (
	MinWindow = 16
	MaxWindow = 23
)

// Status is the far gateway's answer to a hello.
type Status byte

// The values of Status.
const (
	StatusOK      Status = 0
	StatusVersion Status = 1 // no common version
	StatusRefused Status = 2 // full, or about to end
	StatusKey     Status = 3 // only one of the two has a key
)

const magic = "\x00CINCHT\n"

// Lengths of hellos, in bytes. HelloLen is the length without extensions.
const (
	HelloLen      = 15
	MaxExtensions = 255
	MaxHello      = HelloLen + MaxExtensions
)

// Hello is the first message of a gateway.
type Hello struct {
	Lowest, Highest byte // versions
	Window          byte // log2 of the history that the sender keeps for the receiver's pieces; 0: none
	Status          Status
	Codecs          uint16 // codecs that the sender decompresses: bit i is codec i
	Extensions      string // at most MaxExtensions bytes; see AppendExtension
}

// Append appends h to dst.
func (h Hello) Append(dst []byte) []byte {
	dst = append(dst, magic...)
	dst = append(dst, h.Lowest, h.Highest, h.Window, byte(h.Status))
	dst = binary.BigEndian.AppendUint16(dst, h.Codecs)
	dst = append(dst, byte(len(h.Extensions)))
	return append(dst, h.Extensions...)
}

// Extension is the number of an extension. Receivers skip unknown ones.
type Extension byte

// The extensions.
const (
	// Lanes is the extension of gateways for gRPC and HTTP that support lanes. Its content is one byte, a version.
	Lanes Extension = 1
	// Streams is the extension of gateways for MongoDB. Its content is the name of the protocol that the streams of the
	// link's HTTP/2 connection carry.
	Streams Extension = 2
	// Key is the extension of gateways with a key. Its content is a nonce. In an answer, where it is the last
	// extension, the far gateway's proof follows.
	Key Extension = 3
)

// AppendExtension appends an extension to those of a hello.
func AppendExtension(dst string, e Extension, content string) string {
	return dst + string([]byte{byte(e), byte(len(content))}) + content
}

// Find returns the content of an extension. It finds none after one that is truncated.
func (h Hello) Find(e Extension) (content string, ok bool) {
	for b := h.Extensions; len(b) >= 2; {
		n := 2 + int(b[1])
		if n > len(b) {
			return "", false
		}
		if Extension(b[0]) == e {
			return b[2:n], true
		}
		b = b[n:]
	}
	return "", false
}

// BeginsHello reports whether a connection that begins with b may begin with a hello; false if b is empty. One byte
// suffices to tell hellos from HTTP, four to tell them from messages of MongoDB.
func BeginsHello(b []byte) bool {
	return len(b) > 0 && string(b[:min(len(b), len(magic))]) == magic[:min(len(b), len(magic))]
}

// HelloSize returns the length of the hello at the start of b, extensions included. b must have HelloLen bytes or more.
func HelloSize(b []byte) (int, error) {
	if len(b) < HelloLen || string(b[:len(magic)]) != magic {
		return 0, ErrMagic
	}
	return HelloLen + int(b[HelloLen-1]), nil
}

// ParseHello parses a whole hello. It checks versions before the fields that another version may define differently. If
// the error wraps ErrVersion the result has the peer's versions and status.
func ParseHello(b []byte) (Hello, error) {
	n, err := HelloSize(b)
	if err != nil {
		return Hello{}, err
	}
	h := Hello{Lowest: b[8], Highest: b[9], Window: b[10], Status: Status(b[11]), Codecs: binary.BigEndian.Uint16(b[12:])}
	h.Extensions = string(b[HelloLen:min(n, len(b))])
	switch {
	case h.Lowest > h.Highest:
		return h, fmt.Errorf("%w: versions %d to %d", ErrMalformed, h.Lowest, h.Highest)
	case h.Lowest > Version || h.Highest < Version:
		return h, fmt.Errorf("%w: the peer has versions %d to %d, this gateway %d", ErrVersion, h.Lowest, h.Highest, Version)
	case len(b) != n:
		return h, fmt.Errorf("%w: a hello of %d bytes in %d", ErrMalformed, n, len(b))
	case h.Window != 0 && !ValidWindow(h.Window):
		return h, fmt.Errorf("%w: a window of 2^%d", ErrMalformed, h.Window)
	case h.Codecs&1 == 0:
		return h, fmt.Errorf("%w: codecs %04x without raw", ErrMalformed, h.Codecs)
	}
	return h, nil
}

// ValidWindow reports whether w is a window other than 0.
func ValidWindow(w byte) bool { return w >= MinWindow && w <= MaxWindow }
