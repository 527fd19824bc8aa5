package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/cinch-layer/cinch/codec"
)

const (
	magic   = "CinchHis"
	version = 1

	formPlain  = 0
	formPacked = 1

	startBytes  = len(magic) + 2
	packedBytes = startBytes + 8
	// maxFrames limits the decompressed size of a segment: a hostile one must not use up all memory.
	maxFrames = 16 << 20
	// maxSegment is the maximum size of a full segment, whatever the total limit.
	maxSegment = 4 << 20
)

// errUnreadable reports a file that is not a segment, or a damaged one.
var errUnreadable = errors.New("not a readable segment")

var packing = codec.Setting{Codec: codec.Zstd, Level: 3}

// segment is a part of a resolution, in a file or in memory.
type segment struct {
	number uint64
	file   string // "": in memory
	data   []byte // the whole segment, if in memory
	size   int64  // bytes
	raw    int64  // bytes of its frames, when last scanned
	points int
	runs   []run
	oldest int64 // milliseconds
	newest int64
	alien  bool // another process is writing it
	packed bool // compressed already
}

// run is the part of a segment that one process has written.
type run struct {
	writer writerID
	first  uint64 // index of the first point
}

func startOf(form byte) []byte { return append([]byte(magic), version, form) }

// frames returns the frames in a segment's bytes.
func frames(engine *codec.Engine, data []byte) ([]byte, error) {
	if len(data) < startBytes || string(data[:len(magic)]) != magic || data[len(magic)] != version {
		return nil, errUnreadable
	}
	switch data[len(magic)+1] {
	case formPlain:
		return data[startBytes:], nil
	case formPacked:
		return unpacked(engine, data[startBytes:])
	}
	return nil, errUnreadable
}

func unpacked(engine *codec.Engine, data []byte) ([]byte, error) {
	if len(data) < 8 {
		return nil, errUnreadable
	}
	n := binary.LittleEndian.Uint32(data)
	if n > maxFrames {
		return nil, fmt.Errorf("%w: %d bytes", errUnreadable, n)
	}
	out, err := engine.Decompress(nil, data[8:], packing.Codec, int(n), nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if crc32.Checksum(out, castagnoli) != binary.LittleEndian.Uint32(data[4:]) {
		return nil, fmt.Errorf("%w: wrong checksum", errUnreadable)
	}
	return out, nil
}

// packed returns a segment with these frames, compressed if that makes it smaller.
func packed(engine *codec.Engine, all []byte) []byte {
	out := binary.LittleEndian.AppendUint32(startOf(formPacked), uint32(len(all)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(all, castagnoli))
	out, err := engine.Compress(out, all, packing, nil)
	if err != nil || len(out) >= startBytes+len(all) {
		return append(startOf(formPlain), all...)
	}
	return out
}

// load returns all frames of a finished segment, and the available ones of one being written.
func (s *segment) load(engine *codec.Engine) ([]byte, error) {
	data := s.data
	if s.file != "" {
		info, err := os.Stat(s.file)
		if err != nil {
			return nil, err
		}
		if info.Size() > maxFrames+int64(packedBytes) {
			return nil, fmt.Errorf("%w: %d bytes", errUnreadable, info.Size())
		}
		if data, err = os.ReadFile(s.file); err != nil {
			return nil, err
		}
	}
	s.packed = len(data) >= startBytes && data[startBytes-1] == formPacked
	return frames(engine, data)
}

// scan sets the fields derived from the frames, and returns the number of valid bytes.
func (s *segment) scan(all []byte) (good int) {
	s.points, s.runs = 0, nil
	good = readFrames(all, s.note)
	s.raw = int64(good)
	return good
}

// note counts the last point of b.
func (s *segment) note(b *block) {
	if s.points == 0 {
		s.oldest, s.newest = b.time, b.time
	}
	s.oldest, s.newest = min(s.oldest, b.time), max(s.newest, b.time)
	s.points++
	if b.points == 1 {
		s.runs = append(s.runs, run{b.writer, b.first})
	}
}
