package frame

import (
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/minio/minlz"
	"github.com/pierrec/lz4/v4"

	"github.com/cinch-layer/cinch/codec"
)

// blockBytes is what s2 and minlz compress at a time: a typical large message
// in one block, as Mimir's compressor does.
const blockBytes = 1 << 20

func newS2Encoder(s codec.Setting) Encoder {
	options := []s2.WriterOption{s2.WriterConcurrency(1), s2.WriterBlockSize(blockBytes)}
	if s.Codec == codec.Snappy {
		options = append(options, s2.WriterSnappyCompat(), s2.WriterBlockSize(64<<10))
	}
	switch s.Level {
	case 2:
		options = append(options, s2.WriterBetterCompression())
	case 3:
		options = append(options, s2.WriterBestCompression())
	}
	return newEncoder(s2.NewWriter(nil, options...))
}

func newMinLZEncoder(s codec.Setting) Encoder {
	level := max(s.Level, minlz.LevelFastest)
	return newEncoder(minlz.NewWriter(nil, minlz.WriterConcurrency(1), minlz.WriterBlockSize(blockBytes), minlz.WriterLevel(level)))
}

// newLZ4Encoder writes blocks of 256 KiB: larger ones take memory and gain
// nothing, since lz4 looks back 64 KiB.
func newLZ4Encoder(s codec.Setting) (Encoder, error) {
	level := lz4.Fast
	if s.Level > 1 {
		level = lz4.CompressionLevel(1) << (8 + s.Level)
	}
	w := lz4.NewWriter(nil)
	err := w.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(lz4.Block256Kb), lz4.ChecksumOption(false), lz4.CompressionLevelOption(level))
	return newEncoder(w), err
}

// blockDecoder reads snappy, s2 and minlz, whose libraries' readers are alike.
type blockDecoder struct {
	lib interface {
		io.Reader
		Reset(io.Reader)
	}
	src source
}

// newS2Decoder reads snappy too, whatever its name: a peer may well send s2
// under snappy's.
func newS2Decoder() Decoder {
	return &blockDecoder{lib: s2.NewReader(nil, s2.ReaderAllocBlock(64<<10))}
}

func newMinLZDecoder() Decoder { return &blockDecoder{lib: minlz.NewReader(nil)} }

func (d *blockDecoder) Start(r io.Reader) {
	d.src.r = r
	d.lib.Reset(&d.src)
}

func (d *blockDecoder) Read(p []byte) (int, error) { return d.lib.Read(p) }

func (d *blockDecoder) Stop() { d.src.r = nil }

// lz4Decoder takes a new reader for each stream: the library's keeps the last
// 64 KiB through Reset, and a frame of linked blocks could read them, which
// are another caller's.
type lz4Decoder struct{ lib *lz4.Reader }

func (d *lz4Decoder) Start(r io.Reader) { d.lib = lz4.NewReader(r) }

func (d *lz4Decoder) Read(p []byte) (int, error) { return d.lib.Read(p) }

func (d *lz4Decoder) Stop() {
	d.lib.Reset(nil) // gives its buffers back
	d.lib = nil
}
