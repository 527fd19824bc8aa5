package recording

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// Writer writes records. It is not safe for concurrent use.
type Writer struct {
	w    io.Writer
	last time.Time
	buf  []byte
}

// NewWriter writes the header and returns a Writer.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	if len(h.Protocol) > maxProtocol {
		return nil, fmt.Errorf("the protocol's name has %d bytes", len(h.Protocol))
	}
	b := append([]byte(magic), version, byte(len(h.Protocol)))
	b = append(b, h.Protocol...)
	b = binary.BigEndian.AppendUint64(b, uint64(h.Start.UnixNano()))
	_, err := w.Write(b)
	return &Writer{w: w, last: h.Start}, err
}

// Write writes a record. Records with more than MaxBytes are split.
func (w *Writer) Write(r Record) error {
	for len(r.Bytes) > MaxBytes {
		part := r
		part.Bytes, r.Bytes = r.Bytes[:MaxBytes], r.Bytes[MaxBytes:]
		if err := w.one(part); err != nil {
			return err
		}
	}
	return w.one(r)
}

func (w *Writer) one(r Record) error {
	since := max(r.At.Sub(w.last), 0)
	w.last = w.last.Add(since)
	b := append(w.buf[:0], byte(r.Kind))
	b = binary.AppendUvarint(b, r.Conn)
	b = binary.AppendUvarint(b, uint64(since))
	b = binary.AppendUvarint(b, uint64(len(r.Bytes)))
	b = append(b, r.Bytes...)
	w.buf = b[:0]
	_, err := w.w.Write(b)
	return err
}
