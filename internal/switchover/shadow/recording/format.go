package recording

import (
	"errors"
	"time"
)

// Constants of the format; doc.go has its picture.
const (
	magic   = "cinchrec"
	version = 1

	maxProtocol = 255
	// MaxBytes is the maximum of bytes in one record.
	MaxBytes = 1 << 20
)

// Kind of a record.
type Kind uint8

// Kinds of records.
const (
	FromClient Kind = iota + 1
	FromServer
	End     // of a connection
	Partial // the connection is not recorded any more
	Last    // of the file
)

// Header begins a recording.
type Header struct {
	Protocol string
	Start    time.Time
}

// Record is an event on a connection.
type Record struct {
	Kind Kind
	Conn uint64
	At   time.Time
	// Bytes are those of a piece, or why the recording ended. They are valid until the next call of Next.
	Bytes []byte
}

// Errors of reading.
var (
	// ErrFormat is wrapped by errors for bytes that are not a recording.
	ErrFormat = errors.New("not a recording")
	// ErrTruncated ends a recording whose last record is missing.
	ErrTruncated = errors.New("the recording is truncated, or damaged at its end")
)
