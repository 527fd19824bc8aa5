package redis

import (
	"bytes"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// requestSplitter splits a client's bytes into requests. The zero value is ready.
type requestSplitter struct {
	buf    []byte
	parser resp.Parser
}

func (i *requestSplitter) held() int64 { return int64(cap(i.buf)) }

// each adds bytes, and calls f with each request that they complete: its arguments, which point into raw, a
// copy that f may keep. The arguments of an inline request are copies of their own, and raw is the same
// request in the array form.
func (i *requestSplitter) each(b []byte, f func(args [][]byte, raw []byte) error) error {
	i.buf = append(i.buf, b...)
	left := i.buf
	for {
		n, err := i.parser.Parse(left)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		args, raw, err := i.request(left[:n])
		if err == nil && len(args) > 0 { // otherwise the server does not reply
			err = f(args, raw)
		}
		if err != nil {
			return err
		}
		left = left[n:]
		i.parser.Reset()
	}
	i.buf = shadow.Remainder(i.buf, left)
	return nil
}

// request returns the arguments and the bytes of the request that was parsed last.
func (i *requestSplitter) request(b []byte) (args [][]byte, raw []byte, err error) {
	raw = bytes.Clone(b)
	if i.parser.Inline {
		args, ok := resp.SplitInline(bytes.TrimRight(raw, "\r\n"))
		if !ok {
			return nil, nil, resp.ErrProtocol
		}
		return args, resp.AppendArgs(nil, args), nil
	}
	for _, s := range i.parser.Args {
		args = append(args, raw[s.Off:s.Off+s.Len])
	}
	return args, raw, nil
}

// replySplitter splits a server's bytes into replies. The zero value is ready.
type replySplitter struct {
	buf     []byte
	scanner frameScanner
}

func (o *replySplitter) held() int64 { return int64(cap(o.buf)) }

// each adds bytes, and calls f with each reply that they complete, valid until f returns. Push messages, such
// as invalidations of a client's cache, are left out.
func (o *replySplitter) each(b []byte, f func(frame []byte) error) error {
	o.buf = append(o.buf, b...)
	left := o.buf
	for len(left) > 0 {
		n, err := o.scanner.scan(left)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		frame := left[:n]
		left = left[n:]
		if frame[0] == resp.Push {
			continue
		}
		if err := f(frame); err != nil {
			return err
		}
	}
	o.buf = shadow.Remainder(o.buf, left)
	return nil
}

// frameScanner finds the end of reply frames in a growing buffer. The zero value is ready.
type frameScanner struct {
	pos       int   // up to here the first frame is scanned
	remaining int64 // elements of it still to come; 0: it has not begun
}

// scan returns the length of the first frame of buf, 0 if it is incomplete. Until a frame is found, every
// call must pass at least the bytes that earlier calls got.
func (f *frameScanner) scan(buf []byte) (int, error) {
	if f.remaining == 0 {
		f.remaining = 1
	}
	for f.remaining > 0 {
		i := bytes.Index(buf[f.pos:], crlf)
		if i < 0 {
			if len(buf)-f.pos > resp.MaxLineBytes {
				return 0, resp.ErrLineTooLong
			}
			return 0, nil
		}
		next := f.pos + i + 2
		h, err := resp.ParseHead(buf[f.pos:next])
		if err != nil {
			return 0, err
		}
		if h.IsString() && h.N >= 0 {
			if next += int(h.N) + 2; next > len(buf) {
				return 0, nil
			}
		}
		f.remaining--
		if h.IsAggregate() {
			f.remaining += max(h.N, 0)
		}
		if h.Kind == resp.Attribute {
			f.remaining++ // it stands before an element
		}
		f.pos = next
	}
	n := f.pos
	*f = frameScanner{}
	return n, nil
}

var crlf = []byte("\r\n")
