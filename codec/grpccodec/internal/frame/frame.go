// Package frame implements the compressed streams that gRPC's peers exchange, with encoders and decoders that
// are made once and used for many messages. It is independent of gRPC, and does not limit the number of
// states.
//
//	snappy  snappy's framing format, chunks of 64 KiB
//	s2      the same with s2's blocks, written with 1 MiB and read with up to 4 MiB
//	minlz   minlz's stream, blocks written with 1 MiB and read with up to 8 MiB
//	lz4     lz4 frames
//	zstd    zstd frames
//	gzip    RFC 1952, any number of members
package frame

import (
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/codec"
)

// Encoder writes one stream after another. It starts no goroutine and keeps none of its input after Close.
type Encoder interface {
	// Start begins a stream to w.
	Start(w io.Writer)
	io.Writer
	// Close ends the stream and releases w. After an error of Write or Close the encoder must not be used
	// again.
	Close() error
}

// Decoder reads one stream after another. It starts no goroutine.
type Decoder interface {
	// Start begins to read a stream from r; errors are reported by the first Read.
	Start(r io.Reader)
	io.Reader
	// Stop releases the reader, at any point of the stream.
	Stop()
}

// NewEncoder returns an encoder for a setting. Level 0 means the fastest level, except for gzip.
func NewEncoder(s codec.Setting) (Encoder, error) {
	switch s.Codec {
	case codec.Snappy, codec.S2:
		return newChunkEncoder(s), nil
	case codec.MinLZ:
		return newMinLZEncoder(s), nil
	case codec.LZ4:
		return newLZ4Encoder(s)
	case codec.Zstd:
		return newZstdEncoder(s)
	case codec.Gzip:
		return newGzipEncoder(s)
	default:
		return nil, fmt.Errorf("%w: %s is not a stream format of gRPC messages", codec.ErrUnknownCodec, s.Codec)
	}
}

// NewDecoder returns a decoder. A zstd frame with a window of more than maxWindow bytes is an error before
// anything is allocated for it, and so is a minlz stream with larger blocks; the other formats need at most 4
// MiB.
func NewDecoder(id codec.ID, maxWindow int) (Decoder, error) {
	switch id {
	case codec.Snappy, codec.S2:
		return newS2Decoder(), nil
	case codec.MinLZ:
		return newMinLZDecoder(maxWindow)
	case codec.LZ4:
		return &lz4Decoder{}, nil
	case codec.Zstd:
		return newZstdDecoder(maxWindow)
	case codec.Gzip:
		return &gzipDecoder{}, nil
	default:
		return nil, fmt.Errorf("%w: %s is not a stream format of gRPC messages", codec.ErrUnknownCodec, id)
	}
}
