package history

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

const (
	headerBytes = 8 // per frame
	maxBody     = 64 << 10
	maxText     = 256 // bytes of a name
	// maxSeries limits the series of a process.
	maxSeries = 1024

	bodyRun    = 'R'
	bodySeries = 'S'
	bodyPoint  = 'P'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errTorn reports bytes that end within a frame, or are not a frame.
var errTorn = errors.New("truncated or damaged frame")

// appendFrame appends a frame with the body that body appends.
func appendFrame(dst []byte, body func([]byte) []byte) []byte {
	at := len(dst)
	dst = body(append(dst, make([]byte, headerBytes)...))
	b := dst[at+headerBytes:]
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(b)))
	binary.LittleEndian.PutUint32(dst[at+4:], crc32.Checksum(b, castagnoli))
	return dst
}

// nextFrame returns the body of the first frame, and the bytes after the frame. Both point into src.
func nextFrame(src []byte) (body, rest []byte, err error) {
	if len(src) < headerBytes {
		return nil, src, errTorn
	}
	n := binary.LittleEndian.Uint32(src)
	if n == 0 || n > maxBody || int(n) > len(src)-headerBytes {
		return nil, src, errTorn
	}
	body = src[headerBytes : headerBytes+n]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(src[4:]) {
		return nil, src, errTorn
	}
	return body, src[headerBytes+n:], nil
}

// fields reads the parts of a body. After the first missing part all values are zero, and ok returns false.
type fields struct {
	src []byte
	bad bool
}

func (f *fields) ok() bool { return !f.bad }

func (f *fields) unsigned() uint64 {
	v, n := binary.Uvarint(f.src)
	return f.took(v, n)
}

func (f *fields) signed() int64 {
	v, n := binary.Varint(f.src)
	return int64(f.took(uint64(v), n))
}

func (f *fields) took(v uint64, n int) uint64 {
	if n <= 0 || f.bad {
		f.bad = true
		return 0
	}
	f.src = f.src[n:]
	return v
}

func (f *fields) bytes(n uint64) []byte {
	if f.bad || n > uint64(len(f.src)) {
		f.bad = true
		return nil
	}
	b := f.src[:n]
	f.src = f.src[n:]
	return b
}

func (f *fields) text() string {
	n := f.unsigned()
	if n > maxText {
		f.bad = true
		return ""
	}
	return string(f.bytes(n))
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}
