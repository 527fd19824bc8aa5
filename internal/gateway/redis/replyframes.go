package redis

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// frames reads reply elements from the server and writes them to the client.
type frames struct {
	from  source
	in    *resp.Reader
	to    sink
	mute  bool          // the current reply is not for the client
	aside *bytes.Buffer // collects emit's output while an element is gathered; else nil
}

func (f *frames) init(life *gateway.PumpedSession, spill *spill) {
	f.to = sink{conn: life.Client, spill: spill, account: life.Replies}
	f.from = source{conn: life.Upstream}
	f.in = resp.NewReader(&f.from, &f.to, bufferBytes)
}

// dropLine consumes the current line.
func (f *frames) dropLine() error {
	line, err := f.in.Line()
	if err == nil {
		f.in.Discard(len(line))
	}
	return err
}

// setAside appends b to the element being gathered. It fails if that gets longer than maxNodesBytes.
func (f *frames) setAside(b []byte) error {
	if f.aside.Len()+len(b) > maxNodesBytes {
		return fmt.Errorf("%w: more than %d bytes about a cluster", resp.ErrReply, maxNodesBytes)
	}
	f.aside.Write(b)
	return nil
}

// peek returns the first line of the current element without consuming it.
func (f *frames) peek() (line []byte, h resp.Head, err error) {
	line, err = f.in.Line()
	if errors.Is(err, resp.ErrLineTooLong) {
		return f.peekLong()
	}
	if err != nil {
		return nil, h, err
	}
	h, err = resp.ParseHead(line)
	return line, h, err
}

// peekLong is peek for a line longer than the buffer, which only a status, an error or a big number may have.
// It returns the buffered beginning; copyElement carries the whole line.
func (f *frames) peekLong() (line []byte, h resp.Head, err error) {
	line = f.in.Buffered()
	switch h.Kind = line[0]; h.Kind {
	case resp.Simple, resp.Error, resp.BigNumber:
		return line, h, nil
	}
	return nil, h, resp.ErrLineTooLong
}

// copyLong carries the rest of a line up to its CRLF.
func (f *frames) copyLong() error {
	for {
		b := f.in.Buffered()
		if i := bytes.Index(b, crlf); i >= 0 {
			return f.emitLine(b[:i+2])
		}
		if n := len(b) - 1; n > 0 { // the last byte may be the CR
			if err := f.emitLine(b[:n]); err != nil {
				return err
			}
		}
		if err := f.in.Fill(); err != nil {
			return err
		}
	}
}

// beginsSealed reports whether the bytes at offset off begin with the magic.
func (f *frames) beginsSealed(off int) (bool, error) {
	b, err := f.in.Peek(off + len(envelope.Magic))
	if err != nil {
		return false, err
	}
	return envelope.IsSealed(b[off:]), nil
}

// emitLine sends the buffered line and consumes it.
func (f *frames) emitLine(line []byte) error {
	err := f.pass(line)
	f.in.Discard(len(line))
	return err
}

// pass is emit for bytes in the reader's buffer: it lends them instead of copying.
func (f *frames) pass(b []byte) error {
	if f.mute || f.aside != nil {
		return f.emit(b)
	}
	return f.to.lend(b)
}

// emit sends bytes to the client, unless the current reply is not for it.
func (f *frames) emit(b []byte) error {
	if f.aside != nil {
		return f.setAside(b)
	}
	if f.mute {
		return nil
	}
	return f.to.write(b)
}

func (f *frames) emitError(text string) error {
	return f.emit(resp.AppendError(nil, text))
}

// firstWord returns the first element of the current aggregate without consuming anything, "" if that is not a
// bulk string of at most maxNameBytes.
func (f *frames) firstWord() (string, error) {
	line, err := f.in.Line()
	if err != nil {
		return "", err
	}
	h, err := resp.ParseHead(line)
	if err != nil || h.N < 1 {
		return "", err
	}
	off := len(line)
	if line, err = f.in.LineAt(off); err != nil {
		return "", err
	}
	h, err = resp.ParseHead(line)
	if err != nil || h.Kind != resp.Bulk || h.N < 1 || h.N > maxNameBytes {
		return "", err
	}
	off += len(line)
	b, err := f.in.Peek(off + int(h.N))
	if err != nil {
		return "", err
	}
	return string(b[off:]), nil
}
