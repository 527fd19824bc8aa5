package frame

import "io"

// outBytes is the size in bytes of an encoder's output pieces. grpc-go copies every Write into a buffer of
// its own pool: many small ones cost an allocation each, and one that is a byte longer than this takes a
// buffer of 1 MiB for as long as the message waits to be sent.
const outBytes = 32 << 10

// sink collects small writes and splits large ones.
type sink struct {
	w   io.Writer
	buf []byte
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 && s.err == nil {
		if len(s.buf) == 0 && len(p) >= outBytes {
			s.pass(p[:outBytes])
			p = p[outBytes:]
			continue
		}
		room := min(outBytes-len(s.buf), len(p))
		s.buf = append(s.buf, p[:room]...)
		p = p[room:]
		if len(s.buf) == outBytes {
			s.flush()
		}
	}
	return n - len(p), s.err
}

func (s *sink) pass(p []byte) {
	n, err := s.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	s.err = err
}

func (s *sink) flush() {
	if len(s.buf) > 0 && s.err == nil {
		s.pass(s.buf)
		s.buf = s.buf[:0]
	}
}

// writer is the common interface of the libraries' writers.
type writer interface {
	io.WriteCloser
	Reset(io.Writer)
}

// encoder is a library's writer in front of a sink. The library is permanently connected to the sink, so that
// it never retains a caller's writer.
type encoder struct {
	lib writer
	out sink
}

func newEncoder(lib writer) *encoder { return &encoder{lib: lib} }

func (e *encoder) Start(w io.Writer) {
	e.out = sink{w: w, buf: e.out.buf[:0]}
	e.lib.Reset(&e.out)
}

func (e *encoder) Write(p []byte) (int, error) { return e.lib.Write(p) }

func (e *encoder) Close() error {
	if err := e.lib.Close(); err != nil {
		return err
	}
	e.out.flush()
	e.out.w = nil
	return e.out.err
}

// source connects a library's reader to the caller's reader, which is released at the end of a stream.
type source struct{ r io.Reader }

func (s *source) Read(p []byte) (int, error) {
	if s.r == nil {
		return 0, io.EOF
	}
	return s.r.Read(p)
}
