package proto

import (
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/cinch-layer/cinch/codec"
)

// Decoder decodes one message after another. It is not safe for concurrent use, and keeps only buffers
// between messages.
type Decoder struct {
	columnDecoder
	engine  *codec.Engine
	columns []byte
}

// NewDecoder returns a decoder. It uses only the engine of the options.
func NewDecoder(o Options) *Decoder {
	o.setDefaults()
	return &Decoder{engine: o.Engine}
}

// Append appends the message that src holds to dst, which must not overlap src. The message may be at most
// maxSize bytes long. dst's capacity beyond the message may be overwritten. On an error dst is returned
// unchanged; the error wraps [ErrCorrupt], [ErrTooLarge] or [ErrStream].
func (d *Decoder) Append(dst, src []byte, maxSize int) ([]byte, error) {
	h, rest, err := parseHeader(src, maxSize)
	if err != nil {
		return dst, err
	}
	if h.form == formPlain {
		out, err := d.engine.Decompress(dst, rest, h.codec, h.raw, nil)
		if err != nil {
			return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return out, nil
	}
	defer d.shrink(h.raw)
	if err := d.unpack(h, rest); err != nil {
		return dst, err
	}
	out, err := d.run(dst, d.columns, h.raw)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if crc32.Checksum(out[len(dst):], castagnoli) != h.sum {
		return dst, fmt.Errorf("%w: checksum does not match", ErrCorrupt)
	}
	return out, nil
}

func (d *Decoder) shrink(n int) {
	if n > keptBytes {
		d.columnDecoder, d.columns = columnDecoder{}, nil
	}
}

// slack returns the additional capacity that a codec needs beyond its output.
func slack(id codec.ID) int {
	if id == codec.Zstd {
		return codec.DecompressSlack
	}
	return 0
}

// unpack decompresses the sections into d.columns.
func (d *Decoder) unpack(h header, rest []byte) error {
	d.columns = d.columns[:0]
	for len(d.columns) < h.columns {
		v, ok := take(&rest)
		n := v >> 1
		if !ok || n == 0 || n > uint64(h.columns-len(d.columns)) {
			return fmt.Errorf("%w: invalid section", ErrCorrupt)
		}
		size, id := n, codec.Raw
		if v&1 != 0 {
			id = h.codec
			size, ok = take(&rest)
		}
		if !ok || size > uint64(len(rest)) {
			return fmt.Errorf("%w: invalid section", ErrCorrupt)
		}
		// The engine grows a buffer by no more than needed, which would copy all previous sections for each
		// further one.
		d.columns = slices.Grow(d.columns, int(n)+slack(id))
		var err error
		if d.columns, err = d.engine.Decompress(d.columns, rest[:size], id, int(n), nil); err != nil {
			return fmt.Errorf("%w: invalid section: %w", ErrCorrupt, err)
		}
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes after the last section", ErrCorrupt, len(rest))
	}
	return nil
}
