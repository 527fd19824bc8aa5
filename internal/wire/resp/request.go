package resp

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

// Limits of the request side, those of Redis's networking.c.
const (
	// MaxLineBytes is the longest header or inline line (PROTO_INLINE_MAX_SIZE).
	MaxLineBytes = 64 << 10
	// MaxArgs is the largest number of arguments that a request may declare.
	MaxArgs = math.MaxInt32
	// maxBulkBytes is longer than any argument that a server accepts, or that this machine could hold.
	maxBulkBytes = min(1<<40, math.MaxInt/2)
)

// ErrProtocol reports bytes that Redis answers with a protocol error before it closes the connection. A
// gateway forwards them unchanged and lets the server send that error.
var ErrProtocol = errors.New("resp: protocol error")

// Span is a piece of a buffer.
type Span struct{ Off, Len int }

// Parser cuts one request out of a growing buffer. The zero value is ready; Reset
// makes it ready for the next request.
//
//	*2\r\n $3\r\nGET\r\n $1\r\nk\r\n
//	^ pos 0 is the first byte of the buffer that every call passes
//
// Parse remembers where it was, so a request that arrives in many pieces is scanned
// once. The parser keeps offsets only; it never holds on to a buffer.
type Parser struct {
	Args   []Span // the complete arguments so far
	Argc   int    // declared arguments; valid once Started
	Inline bool   // an inline request: Args is unused, the line is buf[:n]

	// Started: the header has been read, so that Argc is known.
	Started bool

	pos    int
	bulk   int // declared length of the argument being read
	inBulk bool
}

// maxKeptArgs is the largest number of arguments for which a Parser keeps memory between requests.
const maxKeptArgs = 64

// Reset prepares for the next request. It keeps the memory of Args for up to maxKeptArgs arguments.
func (p *Parser) Reset() {
	if cap(p.Args) > maxKeptArgs {
		p.Args = nil
	}
	p.Args, p.Argc, p.Inline = p.Args[:0], 0, false
	p.pos, p.bulk, p.inBulk, p.Started = 0, 0, false, false
}

// Pos returns the offset up to which the buffer has been parsed.
func (p *Parser) Pos() int { return p.pos }

// Bulk returns the declared length of the argument whose bytes begin at Pos; ok is false unless its header
// has been read and the argument is still incomplete.
func (p *Parser) Bulk() (length int, ok bool) { return p.bulk, p.inBulk }

// Parse continues with buf, which begins with the request's first byte and holds at least what earlier calls
// saw. It returns the request's length when it is complete, 0 when more bytes are needed, or ErrProtocol. A
// complete request may have no arguments ("*0", an empty line); the server does not answer that.
func (p *Parser) Parse(buf []byte) (n int, err error) {
	if !p.Started {
		if len(buf) == 0 {
			return 0, nil
		}
		if buf[0] != '*' {
			return p.parseInline(buf)
		}
		if done, err := p.parseHeader(buf); !done || err != nil {
			return 0, err
		}
	}
	for len(p.Args) < p.Argc {
		if done, err := p.parseArg(buf); !done || err != nil {
			return 0, err
		}
	}
	return p.pos, nil
}

// Cut parses a request that buf holds whole and appends its arguments, which share buf's memory, to args. n
// is its length. It is 0, and args unchanged, if the request is incomplete or not of the usual form; use a
// Parser then.
func Cut(buf []byte, args [][]byte) (n int, _ [][]byte) {
	if len(buf) == 0 || buf[0] != '*' {
		return 0, args
	}
	argc, at := shortHeader(buf, 0)
	if at == 0 || argc == 0 {
		return 0, args
	}
	before := len(args)
	for range argc {
		if at >= len(buf) || buf[at] != '$' {
			return 0, args[:before]
		}
		size, body := shortHeader(buf, at)
		end := body + int(size)
		if body == 0 || end > len(buf)-2 {
			return 0, args[:before]
		}
		args = append(args, buf[body:end:end])
		at = end + 2
	}
	return at, args
}

// AppendCommand appends a request made of args.
func AppendCommand(dst []byte, args ...string) []byte {
	dst = AppendArray(dst, len(args))
	for _, a := range args {
		dst = AppendBulk(dst, a)
	}
	return dst
}

// AppendArgs appends a request made of args.
func AppendArgs(dst []byte, args [][]byte) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(len(args)), 10)
	dst = append(dst, '\r', '\n')
	for _, a := range args {
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(len(a)), 10)
		dst = append(dst, '\r', '\n')
		dst = append(dst, a...)
		dst = append(dst, '\r', '\n')
	}
	return dst
}

func (p *Parser) parseInline(buf []byte) (int, error) {
	end := bytes.IndexByte(buf, '\n')
	line := buf
	if end >= 0 {
		line = buf[:end]
	}
	if bytes.IndexByte(line, 0) >= 0 || len(line) > MaxLineBytes {
		return 0, ErrProtocol
	}
	if end < 0 {
		return 0, nil
	}
	p.Inline, p.pos = true, end+1
	return p.pos, nil
}

func (p *Parser) parseHeader(buf []byte) (done bool, err error) {
	n, next, err := headerLine(buf, 0)
	if next == 0 || err != nil {
		return false, err
	}
	if n > MaxArgs {
		return false, ErrProtocol
	}
	p.Argc, p.pos, p.Started = int(max(n, 0)), next, true
	return true, nil
}

func (p *Parser) parseArg(buf []byte) (done bool, err error) {
	if !p.inBulk {
		if p.pos < len(buf) && buf[p.pos] != '$' {
			return false, ErrProtocol
		}
		n, next, err := headerLine(buf, p.pos)
		if next == 0 || err != nil {
			return false, err
		}
		if n < 0 || n > maxBulkBytes {
			return false, ErrProtocol
		}
		p.bulk, p.inBulk, p.pos = int(n), true, next
	}
	if len(buf)-p.pos < p.bulk+2 {
		return false, nil
	}
	p.Args = append(p.Args, Span{p.pos, p.bulk})
	p.pos += p.bulk + 2
	p.inBulk = false
	return true, nil
}

// headerLine reads the integer of the header at buf[at:], whose first byte is its kind. next is the offset
// behind the line, 0 if it is incomplete. Like the server it looks for CR and accepts any byte after it as
// the LF.
func headerLine(buf []byte, at int) (n int64, next int, err error) {
	if n, next := shortHeader(buf, at); next > 0 {
		return n, next, nil
	}
	rest := buf[at:]
	cr := bytes.IndexByte(rest, '\r')
	line := rest
	if cr >= 0 {
		line = rest[:cr]
	}
	if len(line) > MaxLineBytes || bytes.IndexByte(line, 0) >= 0 { // the server's search ends at a zero byte
		return 0, 0, ErrProtocol
	}
	if cr < 0 || cr+2 > len(rest) {
		return 0, 0, nil
	}
	if cr < 1 {
		return 0, 0, ErrProtocol
	}
	n, ok := ParseInt(rest[1:cr])
	if !ok {
		return 0, 0, ErrProtocol
	}
	return n, at + cr + 2, nil
}

// shortHeader is headerLine for nearly all headers: one to nine digits without a leading zero. next is 0 for
// all others.
func shortHeader(buf []byte, at int) (n int64, next int) {
	if b := buf[at:]; len(b) > 4 { // most have one digit or two
		d, e := b[1]-'0', b[2]-'0'
		switch {
		case d > 9:
			return 0, 0
		case b[2] == '\r':
			return int64(d), at + 4
		case b[3] == '\r' && e <= 9 && d > 0:
			return int64(10*d + e), at + 5
		}
	}
	for i := at + 1; i < len(buf)-1 && i < at+11; i++ {
		c := buf[i]
		if c == '\r' && i > at+1 {
			return n, i + 2
		}
		if c < '0' || c > '9' || n == 0 && i > at+1 {
			return 0, 0
		}
		n = 10*n + int64(c-'0')
	}
	return 0, 0
}
