package sampled

import (
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/proto/history"
)

const (
	linkLevel       = 3        // the default of a link's zstd level
	linkPiece       = 64 << 10 // largest piece of a connection that is compressed at once, in bytes
	linkPieceHeader = 9        // bytes before a piece
)

// LinkSequences returns the ways in which a link compresses messages: as they are, and in the columns of one lane that
// all of them use in turn. appendHeader appends what precedes a message of n bytes; nil: nothing.
func LinkSequences(e *codec.Engine, appendHeader func(dst []byte, n int) []byte) []Sequence {
	begin := func(columns bool) func() (Writer, error) {
		return func() (Writer, error) {
			stream, err := e.StreamWriter(linkLevel, codec.MaxStreamWindow)
			return &linkWriter{stream: stream, columns: columns, appendHeader: appendHeader}, err
		}
	}
	return []Sequence{
		{Method{Setting: PairPlain}, begin(false)},
		{Method{Setting: PairColumns, Protobuf: true}, begin(true)},
	}
}

// linkWriter compresses messages as a link does, but without HTTP/2 headers.
type linkWriter struct {
	stream       codec.StreamWriter
	lane         history.Writer
	columns      bool
	appendHeader func(dst []byte, n int) []byte
	buf          []byte
}

func (w *linkWriter) Append(dst, message []byte) (_ []byte, err error) {
	w.buf = w.buf[:0]
	if w.appendHeader != nil {
		w.buf = w.appendHeader(w.buf, len(message))
	}
	if w.columns {
		w.buf = w.lane.Append(w.buf, message)
	} else {
		w.buf = append(w.buf, message...)
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
