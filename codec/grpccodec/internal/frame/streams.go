package frame

import (
	"bufio"
	"io"
)

// outBytes is the size in bytes in which an encoder hands on what it wrote.
// grpc-go copies every Write into a buffer of its own pool, so that many small
// ones would cost it an allocation each; larger ones are handed on as they are.
const outBytes = 32 << 10

// writer is what the libraries' writers have in common.
type writer interface {
	io.WriteCloser
	Reset(io.Writer)
}

// encoder is a library's writer with a buffer behind it. The library is tied
// to the buffer for good, so that it never holds on to a caller's writer.
type encoder struct {
	lib writer
	out *bufio.Writer
}

func newEncoder(lib writer) *encoder {
	return &encoder{lib: lib, out: bufio.NewWriterSize(nil, outBytes)}
}

func (e *encoder) Start(w io.Writer) {
	e.out.Reset(w)
	e.lib.Reset(e.out)
}

func (e *encoder) Write(p []byte) (int, error) { return e.lib.Write(p) }

func (e *encoder) Close() error {
	if err := e.lib.Close(); err != nil {
		return err
	}
	err := e.out.Flush()
	e.out.Reset(nil)
	return err
}

// source stands between a library's reader and the caller's, which is let go
// of when a stream is left.
type source struct{ r io.Reader }

func (s *source) Read(p []byte) (int, error) {
	if s.r == nil {
		return 0, io.EOF
	}
	return s.r.Read(p)
}
