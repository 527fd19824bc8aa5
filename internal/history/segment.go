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
	// maxFrames bounds what a segment holds when it is opened: a hostile one shall not take all memory.
	maxFrames = 16 << 20
	// maxSegment is at which size a segment is full, whatever the bound of all.
	maxSegment = 4 << 20
)

// errUnreadable says that a file is no segment of ours, or a damaged one.
var errUnreadable = errors.New("not a segment that can be read")

var packing = codec.Setting{Codec: codec.Zstd, Level: 3}

// segment is a piece of a resolution, in a file or in memory.
type segment struct {
	number uint64
	file   string // "": in memory
	data   []byte // in memory, all of it
	size   int64  // bytes
	raw    int64  // bytes of its frames, when it was scanned
	points int
	runs   []run
	oldest int64 // milliseconds
	newest int64
	alien  bool // another process writes it
	packed bool // compressed already
}

// run is what a segment holds of one process.
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

// packed is a segment with these frames, compressed if that helps.
func packed(engine *codec.Engine, all []byte) []byte {
	out := binary.LittleEndian.AppendUint32(startOf(formPacked), uint32(len(all)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(all, castagnoli))
	out, err := engine.Compress(out, all, packing, nil)
	if err != nil || len(out) >= startBytes+len(all) {
		return append(startOf(formPlain), all...)
	}
	return out
}

// load returns the frames of a segment that is whole, and as much as there is of one that is being written.
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

// scan fills in what the segment's frames say, and returns how many bytes of them made sense.
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
