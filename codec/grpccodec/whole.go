package grpccodec

import (
	"cmp"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// Whole messages through Options.Zstd.

// wireZstdLevel is the default zstd level. Level 1 takes as long, and has a window that is too small for
// messages of 1 MB (bench/results/grpc.md).
const wireZstdLevel = 2

// appendZstd compresses into a buffer of the set, since an implementation needs room for the worst case,
// while dst should grow only by the result.
func (s *Set) appendZstd(dst, src []byte, setting codec.Setting) ([]byte, error) {
	turn := s.encoding.take()
	defer s.encoding.give(turn)
	buf, _ := s.buffers.take()
	out, err := s.options.Zstd.Compress(append(buf[:0], zstdframe.Magic...), src, cmp.Or(setting.Level, wireZstdLevel), nil)
	if err != nil {
		return dst, fmt.Errorf("grpccodec: %s: %w", setting, err)
	}
	dst = append(dst, out...)
	s.buffers.put(out)
	return dst, nil
}

// appendUnzstd decompresses a single frame that states its length. For all others, and for damaged ones, it
// returns false: the reader then handles them.
func (s *Set) appendUnzstd(dst, src []byte, n int) ([]byte, bool) {
	turn := s.decoding.take()
	defer s.decoding.give(turn)
	out, err := s.options.Zstd.Decompress(dst, src[len(zstdframe.Magic):], n, nil)
	return out, err == nil
}
