package grpccodec

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec/internal/frame"
)

// tail appends writes to a slice.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	return len(p), nil
}

// AppendCompress appends src compressed by the named encoding, "zstd" or "zstd-1", to dst, which must not
// overlap src. The result may be longer than src. On an error dst is returned unchanged; the error wraps
// [ErrUnknownName], or is that of a library that failed.
func (s *Set) AppendCompress(dst, src []byte, name string) ([]byte, error) {
	setting, err := parse(name)
	if err != nil {
		return dst, err
	}
	return s.appendBy(setting, dst, src)
}

// AppendSetting is [Set.AppendCompress] with a setting instead of a name, to save formatting and parsing it.
func (s *Set) AppendSetting(dst, src []byte, setting codec.Setting) ([]byte, error) {
	if err := check(setting); err != nil {
		return dst, fmt.Errorf("%w %q: %w", ErrUnknownName, setting, err)
	}
	return s.appendBy(setting, dst, src)
}

func (s *Set) appendBy(setting codec.Setting, dst, src []byte) ([]byte, error) {
	if setting.Codec == codec.Zstd && s.options.Zstd != nil {
		return s.appendZstd(dst, src, setting)
	}
	kinds := s.kindsOf(setting)
	if setting.Codec == codec.Proto {
		return s.appendProto(dst, src, kinds.small)
	}
	w := Writer{set: s, kinds: kinds, setting: setting, err: ErrClosed}
	out := tail{b: dst}
	w.Reset(&out)
	if _, err := w.Write(src); err != nil {
		return dst, err
	}
	if err := w.Close(); err != nil {
		return dst, err
	}
	return out.b, nil
}

// AppendDecompress appends what src holds to dst, which must not overlap src. The message may be at most
// maxSize bytes long; at most about twice its actual size is allocated. On an error dst is returned
// unchanged; the error wraps [ErrUnknownName], [ErrCorrupt] or [ErrTooLarge].
func (s *Set) AppendDecompress(dst, src []byte, name string, maxSize int) ([]byte, error) {
	r, err := s.NewReader(name)
	if err != nil {
		return dst, err
	}
	if r.id == codec.Proto {
		return s.appendUnproto(dst, src, maxSize, r.pool)
	}
	if r.id == codec.Zstd {
		if n, ok := frame.ZstdLength(src); ok && n > uint64(maxSize) {
			return dst, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, n, maxSize)
		} else if ok && s.options.Zstd != nil {
			if out, ok := s.appendUnzstd(dst, src, int(n)); ok {
				return out, nil
			}
		}
	}
	return r.appendAll(dst, src, maxSize)
}

// appendAll reads a message to its end.
func (r *Reader) appendAll(dst, src []byte, maxSize int) ([]byte, error) {
	r.r = bytes.NewReader(src)
	r.left = math.MaxInt64
	defer r.Close()
	start := len(dst)
	out := dst
	for {
		if len(out)-start > maxSize {
			return dst, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxSize)
		}
		out = roomFor(out, start, maxSize, len(src))
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if err == io.EOF {
			break
		} else if err != nil {
			return dst, err
		}
	}
	if len(out)-start > maxSize {
		return dst, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxSize)
	}
	return out, nil
}

// roomFor returns b with free capacity, grown as a message of n compressed bytes is likely to need.
func roomFor(b []byte, start, maxSize, n int) []byte {
	if len(b) < cap(b) {
		return b
	}
	have := len(b) - start
	want := max(512, 4*n, 2*have)
	if maxSize < math.MaxInt { // one byte more, to detect a longer message
		want = min(want, maxSize+1)
	}
	grown := make([]byte, len(b), start+max(want, have+1))
	copy(grown, b)
	return grown
}
