package recording

import (
	"errors"
	"time"
)

// The bytes of the format; doc.go has its picture.
const (
	magic   = "cinchrec"
	version = 1

	mostProtocol = 255
	// MaxBytes of one record.
	MaxBytes = 1 << 20
)

// Kind of a record.
type Kind uint8

// Kinds of records.
const (
	FromClient Kind = iota + 1
	FromServer
	End     // of a connection
	Partial // the connection is recorded no more
	Last    // of the file
)

// Header begins a recording.
type Header struct {
	Protocol string
	Start    time.Time
}

// Record is something that happened on a connection.
type Record struct {
	Kind Kind
	Conn uint64
	At   time.Time
	// Bytes of a piece, or why the recording ended. Of a record that was read they are valid until the next one is.
	Bytes []byte
}

// Errors of reading.
var (
	// ErrFormat is wrapped by what is returned for bytes that are no recording.
	ErrFormat = errors.New("this is no recording")
	// ErrTruncated ends a recording whose last record is missing.
	ErrTruncated = errors.New("the recording was cut off, or is damaged at its end")
)
