package grpc

import (
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/proto/history"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// What a link is measured with: its setting and its largest window, as they are unless somebody says otherwise.
const (
	linkLevel  = 3
	linkWindow = 23

	linkPiece       = 64 << 10 // bytes of what passes that are compressed together, at most
	linkPieceHeader = 9        // bytes before them
)

// waysOf are those in which messages may go on. Those that came compressed may open to so many bytes.
func waysOf(codecs *grpccodec.Set, engine *codec.Engine, maxOpen int) *sampled.Ways {
	return &sampled.Ways{
		Open: func(m sampled.Message) ([]byte, error) {
			if m.Coding == "" {
				return m.Bytes, nil
			}
			return codecs.AppendDecompress(nil, m.Bytes, m.Coding, maxOpen)
		},
		Compress: codecs.AppendCompress,
		Each:     []sampled.Way{{Setting: "s2"}, {Setting: "gzip-6"}, {Setting: "zstd-1"}, {Setting: "zstd-3"}, {Setting: codec.Proto.String(), Protobuf: true}},
		Sequences: []sampled.Sequence{
			{Way: sampled.Way{Setting: sampled.PairPlain}, Begin: func() (sampled.Writer, error) {
				return beginLink(engine, func(dst, message []byte) ([]byte, error) { return append(dst, message...), nil })
			}},
			{Way: sampled.Way{Setting: sampled.PairColumns, Protobuf: true}, Begin: func() (sampled.Writer, error) {
				var w history.Writer // that of a lane, which all calls would go by, one after the other
				return beginLink(engine, func(dst, message []byte) ([]byte, error) { return w.Append(dst, message), nil })
			}},
		},
	}
}

// beginLink begins a connection that is compressed as a whole, on which messages are written so.
func beginLink(e *codec.Engine, write func(dst, message []byte) ([]byte, error)) (sampled.Writer, error) {
	stream, err := e.StreamWriter(linkLevel, linkWindow)
	return &linkWriter{stream: stream, write: write}, err
}

// linkWriter is what a link makes of messages, without HTTP/2's headers.
type linkWriter struct {
	stream codec.StreamWriter
	write  func(dst, message []byte) ([]byte, error)
	buf    []byte
}

func (w *linkWriter) Append(dst, message []byte) (_ []byte, err error) {
	w.buf = wire.AppendHeader(w.buf[:0], true, len(message))
	if w.buf, err = w.write(w.buf, message); err != nil {
		return dst, err
	}
	for rest := w.buf; len(rest) > 0 && err == nil; {
		piece := rest[:min(len(rest), linkPiece)]
		rest = rest[len(piece):]
		dst = append(dst, make([]byte, linkPieceHeader)...)
		dst, err = w.stream.Append(dst, piece)
	}
	return dst, err
}

func (w *linkWriter) Close() { w.stream.Close() }
