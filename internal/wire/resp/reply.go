package resp

import (
	"errors"
	"fmt"
	"strconv"
)

// The kinds of reply elements, by their first byte.
const (
	Simple    = '+'
	Error     = '-'
	Integer   = ':'
	Bulk      = '$'
	Array     = '*'
	Null      = '_'
	Double    = ','
	Boolean   = '#'
	BulkError = '!'
	Verbatim  = '='
	BigNumber = '('
	Map       = '%'
	Set       = '~'
	Attribute = '|'
	Push      = '>'
)

// ErrReply reports bytes from the server that are not a reply.
var ErrReply = errors.New("resp: not a reply")

// Head is the first line of a reply element.
type Head struct {
	Kind byte
	// N is the length of a string kind in bytes, the number of elements of an
	// aggregate (a map's keys and values counted singly), or 0. It is -1 for the nulls
	// of RESP2. Streamed lengths ("?"), which no Redis sends, are refused with ErrReply.
	N int64
}

// IsAggregate reports whether N elements follow.
func (h Head) IsAggregate() bool {
	switch h.Kind {
	case Array, Map, Set, Attribute, Push:
		return true
	}
	return false
}

// IsString reports whether N bytes and a CRLF follow (when N is not negative).
func (h Head) IsString() bool {
	return h.Kind == Bulk || h.Kind == BulkError || h.Kind == Verbatim
}

// IsNull reports whether the element is one of the protocol's three nulls.
func (h Head) IsNull() bool {
	return h.Kind == Null || h.N < 0 && (h.Kind == Bulk || h.Kind == Array)
}

// ParseHead parses an element's first line, which includes its CRLF.
func ParseHead(line []byte) (Head, error) {
	if len(line) < 3 {
		return Head{}, fmt.Errorf("%w: empty line", ErrReply)
	}
	h := Head{Kind: line[0]}
	switch h.Kind {
	case Simple, Error, Integer, Null, Double, Boolean, BigNumber:
		return h, nil
	case Bulk, BulkError, Verbatim, Array, Set, Push, Map, Attribute:
		return parseCount(h, line[1:len(line)-2])
	}
	return Head{}, fmt.Errorf("%w: it begins with %q", ErrReply, line[0])
}

func parseCount(h Head, digits []byte) (Head, error) {
	n, ok := ParseInt(digits)
	if !ok || n < -1 || n > 1<<40 {
		return Head{}, fmt.Errorf("%w: length %.32q", ErrReply, digits)
	}
	if n > 0 && (h.Kind == Map || h.Kind == Attribute) {
		n *= 2
	}
	h.N = n
	return h, nil
}

// BulkAt returns the offset and size of the body of the bulk string at the beginning of b. b may end within the
// body. body is 0 if the first line is incomplete or not of the usual form; use ParseHead then.
func BulkAt(b []byte) (body, size int) {
	n, next := shortHeader(b, 0)
	if next == 0 || b[0] != Bulk || b[next-1] != '\n' {
		return 0, 0
	}
	return next, int(n)
}

// The Append functions add one encoded element to dst and return the extended slice,
// as append does.

// AppendArray appends the header of an array (or of a request) of n elements.
func AppendArray(dst []byte, n int) []byte { return appendHeader(dst, '*', int64(n)) }

// AppendBulk appends a bulk string.
func AppendBulk[T ~[]byte | ~string](dst []byte, b T) []byte {
	dst = AppendBulkHeader(dst, len(b))
	dst = append(dst, b...)
	return append(dst, '\r', '\n')
}

// AppendBulkHeader appends "$n\r\n", the header of a bulk string of n bytes.
func AppendBulkHeader(dst []byte, n int) []byte { return appendHeader(dst, '$', int64(n)) }

// AppendInt appends an integer reply.
func AppendInt(dst []byte, n int64) []byte { return appendHeader(dst, ':', n) }

// AppendError appends an error reply; text holds its code and message ("ERR cinch: …").
// Spaces replace line breaks in it.
func AppendError(dst []byte, text string) []byte {
	dst = append(dst, '-')
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return append(dst, '\r', '\n')
}

// MaxHeaderLen is the length in bytes of the longest header that the Append functions write, with its line
// break.
const MaxHeaderLen = 1 + 20 + 2

func appendHeader(dst []byte, kind byte, n int64) []byte {
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, '\r', '\n')
}

// GatewayCommand asks whether the peer is a Cinch gateway. The gateway answers with an array of three
// strings: the command's name, the gateway's name and the URL of the servers behind it. A Redis server
// reports an unknown command.
const GatewayCommand = "cinch.gateway"

// AppendGateway appends the answer to GatewayCommand.
func AppendGateway(dst []byte, name, upstream string) []byte {
	return AppendCommand(dst, GatewayCommand, name, upstream)
}
