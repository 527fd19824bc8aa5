package recording

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"
)

// ErrFull is returned for a record that would make a file larger than its limit.
var ErrFull = errors.New("the file has reached its limit")

// File is a recording that is being written.
type File struct {
	*Writer
	file    *os.File
	written int64
	limit   int64
	to      io.Closer // the age encryption, nil without
	flush   *bufio.Writer
}

// reserve is kept free below the limit: for the last record, and for what age adds and buffers.
const reserve = 2*64<<10 + 4<<10

// Create begins a recording in a new file, readable by its owner only. Without recipients it is not
// encrypted.
func Create(name string, h Header, limit int64, recipients ...age.Recipient) (*File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	out := &File{file: f, limit: limit}
	if err := out.begin(h, recipients); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(name))
	}
	return out, nil
}

func (f *File) begin(h Header, recipients []age.Recipient) error {
	f.flush = bufio.NewWriterSize(counted{f}, 64<<10)
	w := io.Writer(f.flush)
	if len(recipients) > 0 {
		sealed, err := age.Encrypt(counted{f}, recipients...) // age itself writes chunks of 64 KiB
		if err != nil {
			return err
		}
		w, f.to = sealed, sealed
	}
	var err error
	f.Writer, err = NewWriter(w, h)
	return err
}

// counted counts the bytes written to the file.
type counted struct{ f *File }

func (c counted) Write(b []byte) (int, error) {
	n, err := c.f.file.Write(b)
	c.f.written += int64(n)
	return n, err
}

// Write writes a record, or returns ErrFull.
func (f *File) Write(r Record) error {
	if f.written+int64(len(r.Bytes))+reserve > f.limit {
		return ErrFull
	}
	return f.Writer.Write(r)
}

// Size returns the number of bytes in the file.
func (f *File) Size() int64 { return f.written }

// Finish writes the last record, and closes the file.
func (f *File) Finish(last Record) error {
	last.Kind = Last
	err := f.Writer.Write(last)
	if f.to != nil {
		err = errors.Join(err, f.to.Close())
	}
	return errors.Join(err, f.flush.Flush(), f.file.Sync(), f.file.Close())
}

// Opened is a recording that is read from a file.
type Opened struct {
	*Reader
	file *os.File
}

// Close closes the file.
func (o *Opened) Close() error { return o.file.Close() }

// ErrEncrypted is returned for an encrypted recording when no identity is given.
var ErrEncrypted = errors.New("the recording is encrypted")

// Open opens a recording, decrypting it with one of the identities if it is encrypted.
func Open(name string, identities ...age.Identity) (*Opened, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	in, err := open(f, identities)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return &Opened{in, f}, nil
}

func open(f io.Reader, identities []age.Identity) (*Reader, error) {
	buffered := bufio.NewReaderSize(f, 64<<10)
	if begin, _ := buffered.Peek(len(magic)); bytes.Equal(begin, []byte(magic)) {
		return NewReader(buffered)
	}
	if begin, _ := buffered.Peek(len(ageMagic)); !bytes.Equal(begin, []byte(ageMagic)) {
		return nil, ErrFormat
	}
	if len(identities) == 0 {
		return nil, ErrEncrypted
	}
	src := &ending{r: buffered}
	content, err := age.Decrypt(src, identities...)
	if err != nil {
		return nil, err
	}
	return NewReader(&decrypted{src, content})
}

const ageMagic = "age-encryption.org/"

// ending records that its file has ended.
type ending struct {
	r     io.Reader
	ended bool
}

func (e *ending) Read(b []byte) (int, error) {
	n, err := e.r.Read(b)
	e.ended = e.ended || errors.Is(err, io.EOF)
	return n, err
}

// decrypted turns an error at the end of a file into io.ErrUnexpectedEOF: an incomplete chunk can't be
// authenticated.
type decrypted struct {
	src *ending
	r   io.Reader
}

func (d *decrypted) Read(b []byte) (int, error) {
	n, err := d.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) && d.src.ended {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
