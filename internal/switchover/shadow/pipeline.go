package shadow

import (
	"errors"
	"net"
	"time"
)

// socketBufferBytes is a number of bytes that fits into any socket's buffers.
const socketBufferBytes = 64 << 10

// Pipeline sends operations to a target in one piece and calls answered with what read returns for each. A latency
// lasts from the first byte sent, at began, to the last byte of the answer. After an error of read Pipeline calls
// closeConn, which must close c.
func Pipeline(c net.Conn, closeConn func() error, ops []*Operation, deadline time.Time, read func(op *Operation, began time.Time) (Answer, error), answered func(int, Answer)) error {
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	bufs := make(net.Buffers, 0, len(ops))
	size := 0
	for _, op := range ops {
		bufs = append(bufs, op.Request)
		size += len(op.Request)
	}
	began := time.Now()
	written := make(chan error, 1)
	if size < socketBufferBytes {
		_, err := bufs.WriteTo(c)
		written <- err
	} else { // the server may stop reading until its answers are read
		go func() {
			_, err := bufs.WriteTo(c)
			written <- err
		}()
	}
	for i, op := range ops {
		a, err := read(op, began)
		if err != nil {
			return errors.Join(err, closeConn(), <-written)
		}
		answered(i, a)
	}
	return <-written
}

// Emptied returns a buffer without its content, or nil if it is larger than most bytes.
func Emptied(b []byte, most int) []byte {
	if cap(b) > most {
		return nil
	}
	return b[:0]
}

// ReadBytes is the size of a target connection's read buffer unless answers are longer.
const ReadBytes = 16 << 10

// ReadMore appends bytes of a connection to in, at least one, or returns an error.
func ReadMore(c net.Conn, in []byte) ([]byte, error) {
	if cap(in)-len(in) < ReadBytes/4 {
		in = append(make([]byte, 0, 2*len(in)+ReadBytes), in...)
	}
	n, err := c.Read(in[len(in):cap(in)])
	if n > 0 {
		err = nil
	}
	return in[:len(in)+n], err
}
