package frame

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/minio/minlz"
	"github.com/pierrec/lz4/v4"

	"github.com/cinch-layer/cinch/codec"
)

// blockBytes is the block size of s2 and minlz: a typical large message is one block, as in Mimir's
// compressor.
const blockBytes = 1 << 20

func newMinLZEncoder(s codec.Setting) Encoder {
	level := max(s.Level, minlz.LevelFastest)
	lib := minlz.NewWriter(nil, minlz.WriterConcurrency(1), minlz.WriterBlockSize(blockBytes), minlz.WriterLevel(level))
	return &minLZEncoder{newEncoder(lib), lib}
}

// minLZEncoder compresses large pieces in place, without copying them.
type minLZEncoder struct {
	*encoder
	direct *minlz.Writer
}

func (e *minLZEncoder) Write(p []byte) (int, error) {
	if len(p) < directBytes {
		return e.encoder.Write(p)
	}
	if err := e.direct.EncodeBuffer(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// newLZ4Encoder returns an encoder that writes independent blocks of 1 MiB.
func newLZ4Encoder(s codec.Setting) (Encoder, error) {
	level := lz4.Fast
	if s.Level > 1 {
		level = lz4.CompressionLevel(1) << (8 + s.Level)
	}
	w := lz4.NewWriter(nil)
	err := w.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(lz4.Block1Mb), lz4.ChecksumOption(false), lz4.CompressionLevelOption(level))
	return newEncoder(w), err
}

// blockDecoder reads snappy, s2 and minlz, whose libraries have similar readers.
type blockDecoder struct {
	lib interface {
		io.Reader
		Reset(io.Reader)
	}
	src source
}

// newS2Decoder returns a decoder for s2 that also reads snappy: a peer may send s2 under snappy's name.
func newS2Decoder() Decoder {
	return &blockDecoder{lib: s2.NewReader(nil, s2.ReaderAllocBlock(64<<10))}
}

// newMinLZDecoder returns a reader that has read a whole block. The library's reader drops its buffer at each
// stream's header unless the buffer has the maximum block size of that header, and would allocate a megabyte
// for every message.
func newMinLZDecoder(maxBlock int) (Decoder, error) {
	lib := minlz.NewReader(nil, minlz.ReaderMaxBlockSize(min(maxBlock, minlz.MaxBlockSize)))
	stream := fullBlock()
	if maxBlock >= blockBytes {
		lib.Reset(bytes.NewReader(stream))
		if _, err := io.Copy(io.Discard, onlyReader{lib}); err != nil {
			return nil, err
		}
	}
	return &blockDecoder{lib: lib}, nil
}

// fullBlock returns a stream of one block of zeros.
var fullBlock = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	w := minlz.NewWriter(&b, minlz.WriterConcurrency(1), minlz.WriterBlockSize(blockBytes))
	_, err := w.Write(make([]byte, blockBytes))
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // writing to memory can't fail
	}
	return b.Bytes()
})

type onlyReader struct{ io.Reader }

func (d *blockDecoder) Start(r io.Reader) {
	d.src.r = r
	d.lib.Reset(&d.src)
}

func (d *blockDecoder) Read(p []byte) (int, error) { return d.lib.Read(p) }

func (d *blockDecoder) Stop() { d.src.r = nil }

// lz4Decoder uses a new reader for each stream: the library's reader keeps the last 64 KiB through Reset, and
// a frame of linked blocks could read these, which belong to another caller.
type lz4Decoder struct{ lib *lz4.Reader }

func (d *lz4Decoder) Start(r io.Reader) { d.lib = lz4.NewReader(r) }

func (d *lz4Decoder) Read(p []byte) (int, error) { return d.lib.Read(p) }

func (d *lz4Decoder) Stop() {
	d.lib.Reset(nil) // returns its buffers
	d.lib = nil
}
