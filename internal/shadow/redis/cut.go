package redis

import (
	"bytes"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// in splits a client's bytes into requests. The zero value is ready.
type in struct {
	buf []byte
	cut resp.Parser
}

func (i *in) held() int64 { return int64(cap(i.buf)) }

// each adds bytes, and calls f with each request that they complete: its arguments, which point into own, a
// copy that f may keep. The arguments of an inline request are copies of their own, and own is the same
// request in the array form.
func (i *in) each(b []byte, f func(args [][]byte, own []byte) error) error {
	i.buf = append(i.buf, b...)
	left := i.buf
	for {
		n, err := i.cut.Parse(left)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		args, own, err := i.request(left[:n])
		if err == nil && len(args) > 0 { // otherwise the server does not reply
			err = f(args, own)
		}
		if err != nil {
			return err
		}
		left = left[n:]
		i.cut.Reset()
	}
	i.buf = shadow.Remainder(i.buf, left)
	return nil
}

// request returns the arguments and the bytes of the request that was parsed last.
func (i *in) request(b []byte) (args [][]byte, own []byte, err error) {
	own = bytes.Clone(b)
	if i.cut.Inline {
		args, ok := resp.SplitInline(bytes.TrimRight(own, "\r\n"))
		if !ok {
			return nil, nil, resp.ErrProtocol
		}
		return args, resp.AppendArgs(nil, args), nil
	}
	for _, s := range i.cut.Args {
		args = append(args, own[s.Off:s.Off+s.Len])
	}
	return args, own, nil
}

// out splits a server's bytes into replies. The zero value is ready.
type out struct {
	buf  []byte
	ends frames
}

func (o *out) held() int64 { return int64(cap(o.buf)) }

// each adds bytes, and calls f with each reply that they complete, valid until f returns. Push messages, such
// as invalidations of a client's cache, are left out.
func (o *out) each(b []byte, f func(frame []byte) error) error {
	o.buf = append(o.buf, b...)
	left := o.buf
	for len(left) > 0 {
		n, err := o.ends.end(left)
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
