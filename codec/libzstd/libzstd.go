//go:build cgo

package libzstd

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/valyala/gozstd"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// coder implements codec.ZstdCoder. The library keeps its contexts in a sync.Pool and frees them when they
// are garbage collected; the engine limits how many are in use.
type coder struct {
	compressors   prepared[compressorKey, *gozstd.CDict]
	decompressors prepared[[32]byte, *gozstd.DDict]
	frames        sync.Pool // *[]byte, buffers for frames with their restored header
}

// compressorKey identifies a dictionary by its hash, so that one loaded twice is prepared once.
type compressorKey struct {
	hash  [32]byte
	level int
}

// maxKeptFrame limits the size in bytes of a buffer to keep for frames.
const maxKeptFrame = 1 << 20

// New returns libzstd and true, or nil and false in a program that was built without cgo. The result is safe
// for concurrent use, and may be shared by engines.
func New() (codec.ZstdCoder, bool) { return &coder{}, true }

func (c *coder) Name() string { return "libzstd" }

const (
	defaultLevel = 3
	// Above maxLargeLevel a value longer than zstdframe.MaxWindow would get a
	// window of its own size.
	maxLargeLevel = 19
)

func (c *coder) Compress(dst, src []byte, level int, d *codec.Dict) ([]byte, error) {
	if len(src) == 0 { // the library would append nothing at all
		return zstdframe.AppendEmpty(dst), nil
	}
	if level == 0 {
		level = defaultLevel
	}
	if len(src) > zstdframe.MaxWindow {
		level = min(level, maxLargeLevel)
	}
	start := len(dst)
	if room := codec.MaxEncodedLen(codec.Zstd, len(src)); cap(dst)-start < room {
		dst = append(make([]byte, 0, start+room), dst...)
	}
	if d == nil {
		return zstdframe.Store(gozstd.CompressLevel(dst, src, level), start, len(src))
	}
	cd, err := c.compressor(d, level)
	if err != nil {
		return dst, err
	}
	out := gozstd.CompressDict(dst, src, cd)
	runtime.KeepAlive(cd) // it may have left the cache, and the library holds only its address
	return zstdframe.Store(out, start, len(src))
}

func (c *coder) compressor(d *codec.Dict, level int) (*gozstd.CDict, error) {
	return c.compressors.get(compressorKey{d.Hash(), level}, func() (*gozstd.CDict, error) {
		cd, err := gozstd.NewCDictLevel(d.Content(), level)
		if err == nil {
			err = probe(cd)
		}
		if err != nil {
			return nil, fmt.Errorf("%w %08x: %w", codec.ErrDictionary, d.Number(), err)
		}
		return cd, nil
	})
}

// probe checks that the library accepts the dictionary, since it reports an invalid one only by a panic at
// the first use.
func probe(cd *gozstd.CDict) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("libzstd refuses the dictionary: %v", r)
		}
	}()
	gozstd.CompressDict(nil, []byte("probe"), cd)
	return nil
}

// hostileWindowLog is the window that frames declare to the library, without a content size. It costs nothing
// when decoding in one piece into a buffer of the right length. But when a frame overruns that buffer, the
// library would start again with a buffer as large as the frame requires: then this window, above its limit
// of 128 MiB, makes it fail.
const hostileWindowLog = 30

func (c *coder) Decompress(dst, src []byte, rawLen int, d *codec.Dict) ([]byte, error) {
	f, err := zstdframe.Parse(src, rawLen)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", codec.ErrCorrupt, err)
	}
	if f.DictID != 0 && !d.Matches(f.DictID) {
		return dst, fmt.Errorf("%w: zstd frame wants dictionary %d", codec.ErrCorrupt, f.DictID)
	}
	if rawLen == 0 {
		return dst, nil
	}
	var dd *gozstd.DDict
	if d != nil {
		if dd, err = c.decompressor(d); err != nil {
			return dst, err
		}
	}
	buf, _ := c.frames.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	frame := f.AppendTo((*buf)[:0], zstdframe.Header{WindowLog: hostileWindowLog, ContentLen: -1})
	start := len(dst)
	if cap(dst)-start < rawLen {
		dst = append(make([]byte, 0, start+rawLen), dst...)
	}
	out, err := gozstd.DecompressDict(dst[start:start:start+rawLen], frame, dd)
	runtime.KeepAlive(dd) // as in Compress
	if cap(frame) <= maxKeptFrame {
		*buf = frame
		c.frames.Put(buf)
	}
	if err != nil {
		return dst[:start], fmt.Errorf("%w: %w", codec.ErrCorrupt, err)
	}
	if len(out) != rawLen {
		return dst[:start], fmt.Errorf("%w: it holds %d bytes, not %d", codec.ErrCorrupt, len(out), rawLen)
	}
	return dst[:start+rawLen], nil
}

func (c *coder) decompressor(d *codec.Dict) (*gozstd.DDict, error) {
	return c.decompressors.get(d.Hash(), func() (*gozstd.DDict, error) {
		dd, err := gozstd.NewDDict(d.Content())
		if err == nil && d.Trained() {
			err = probeDecompressor(dd, d)
		}
		if err != nil {
			return nil, fmt.Errorf("%w %08x: %w", codec.ErrDictionary, d.Number(), err)
		}
		return dd, nil
	})
}

// probeDecompressor decodes an empty frame that names the dictionary. Without this check the library would
// ignore a dictionary that it does not accept.
func probeDecompressor(dd *gozstd.DDict, d *codec.Dict) error {
	f, err := zstdframe.Parse(zstdframe.AppendEmpty(nil), 0)
	if err != nil {
		return err
	}
	frame := f.AppendTo(nil, zstdframe.Header{WindowLog: 10, DictID: d.ZstdID(), ContentLen: 0})
	_, err = gozstd.DecompressDict(make([]byte, 0, 1), frame, dd)
	return err
}
