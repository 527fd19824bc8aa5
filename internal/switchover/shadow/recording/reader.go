package recording

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Reader reads records. It is not safe for concurrent use.
type Reader struct {
	Header
	r    *bufio.Reader
	last time.Time
	buf  []byte
	err  error // returned by all further calls
}

// NewReader reads the header and returns a Reader.
func NewReader(r io.Reader) (*Reader, error) {
	in := &Reader{r: bufio.NewReaderSize(r, 64<<10)}
	var begin [len(magic) + 2]byte
	if _, err := io.ReadFull(in.r, begin[:]); err != nil {
		return nil, cut(err)
	}
	if string(begin[:len(magic)]) != magic {
		return nil, ErrFormat
	}
	if v := begin[len(magic)]; v != version {
		return nil, fmt.Errorf("%w that this version of cinch reads: its format is %d", ErrFormat, v)
	}
	rest := make([]byte, int(begin[len(magic)+1])+8)
	if _, err := io.ReadFull(in.r, rest); err != nil {
		return nil, cut(err)
	}
	name := len(rest) - 8
	in.Protocol, in.Start = string(rest[:name]), time.Unix(0, int64(binary.BigEndian.Uint64(rest[name:])))
	in.last = in.Start
	return in, nil
}

// Next returns the next record and, after the Last one of a complete recording, io.EOF.
func (in *Reader) Next() (Record, error) {
	if in.err != nil {
		return Record{}, in.err
	}
	r, err := in.next()
	switch {
	case err != nil:
		in.err = cut(err)
		return Record{}, in.err
	case r.Kind == Last:
		in.err = io.EOF
	}
	return r, nil
}

func (in *Reader) next() (Record, error) {
	kind, err := in.r.ReadByte()
	if err != nil {
		return Record{}, err
	}
	r := Record{Kind: Kind(kind)}
	if r.Kind < FromClient || r.Kind > Last {
		return r, fmt.Errorf("%w that this version of cinch reads: it has a record of kind %d", ErrFormat, kind)
	}
	var numbers [3]uint64
	for i := range numbers {
		if numbers[i], err = binary.ReadUvarint(in.r); err != nil {
			return r, err
		}
	}
	since, length := numbers[1], numbers[2]
	if length > MaxBytes || since > uint64(maxSince) {
		return r, fmt.Errorf("%w: a record has %d bytes, %d ns after the previous one", ErrFormat, length, since)
	}
	r.Conn, r.At = numbers[0], in.last.Add(time.Duration(since))
	if uint64(cap(in.buf)) < length {
		in.buf = make([]byte, length)
	}
	r.Bytes = in.buf[:length]
	if _, err := io.ReadFull(in.r, r.Bytes); err != nil {
		return r, err
	}
	in.last = r.At
	return r, nil
}

// maxSince limits the time between records.
const maxSince = 10 * 365 * 24 * time.Hour

// cut returns ErrTruncated for an end of the file before the last record.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}

// Summary describes the content of a recording.
type Summary struct {
	Header
	Took        time.Duration
	Bytes       int64 // from clients and servers
	Connections int
	Partial     int    // connections not recorded completely
	Why         string // why the recording ended
	Truncated   bool
}

// Summarize reads a recording to its end.
func Summarize(in *Reader) (Summary, error) {
	s := Summary{Header: in.Header}
	conns := map[uint64]bool{}
	for {
		r, err := in.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, ErrTruncated) {
			s.Truncated, s.Connections = !errors.Is(err, io.EOF), len(conns)
			return s, nil
		}
		if err != nil {
			return s, err
		}
		s.Took = r.At.Sub(s.Start)
		switch r.Kind {
		case FromClient, FromServer:
			s.Bytes += int64(len(r.Bytes))
			conns[r.Conn] = true
		case Partial:
			s.Partial++
		case Last:
			s.Why = string(r.Bytes)
		}
	}
}

// String returns the summary in one line.
func (s Summary) String() string {
	line := fmt.Sprintf("recorded at %s for %v: %d connections, %d bytes", s.Start.Format(time.RFC3339), s.Took.Round(time.Millisecond), s.Connections, s.Bytes)
	if s.Partial > 0 {
		line += fmt.Sprintf("; %d connections incomplete", s.Partial)
	}
	if s.Truncated {
		return line + "; the file is truncated, or damaged at its end: only the part before is replayed"
	}
	return line + "; it ended: " + s.Why
}
