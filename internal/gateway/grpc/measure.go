package grpc

import (
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/proto/history"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// meter measures the messages of one body for future dictionaries, and finds the current dictionary. A call
// has few rules, usually one, so the meter remembers the kind of the last message.
type meter struct {
	kinds *dictionary.Messages
	pair  *pairing // nil: nothing is measured, and there are no dictionaries

	unlimited bool // compress whatever the budgets

	kind *dictionary.Kind // kind of messages under rule
	rule *policy.MessageRule
}

// kindOf returns the kind of messages under a rule, or nil if they are not counted.
func (m *meter) kindOf(rule *policy.MessageRule) *dictionary.Kind {
	p := m.pair
	switch {
	case p == nil:
		return nil
	case rule != nil && rule.AutoDict && p.next != nil:
	case p.watch:
		rule = nil
	default:
		return nil
	}
	if m.kind == nil || m.rule != rule {
		m.kind, m.rule = m.kinds.Kind(rule, p.method, p.direction), rule
	}
	return m.kind
}

// observeSent records a message that was sent as sent bytes.
func (m *meter) observeSent(rule *policy.MessageRule, message []byte, sent int) {
	if k := m.kindOf(rule); k != nil {
		k.Observe(message, sent)
	}
}

// countUnchanged records a plain message of n bytes that was sent unchanged and unread.
func (m *meter) countUnchanged(rule *policy.MessageRule, n int) {
	if k := m.kindOf(rule); k != nil {
		k.Passed(n)
	}
}

// countCompressed records a message of n compressed bytes that was sent unchanged.
func (m *meter) countCompressed(n int) {
	if k := m.kindOf(nil); k != nil {
		k.PassedCompressed(n)
	}
}

// shouldRead reports whether to read a plain message of n bytes that no rule covers.
func (m *meter) shouldRead(n int) bool {
	k := m.kindOf(nil)
	return k != nil && k.Wants(n)
}

// shouldSample reports whether to read a message of n bytes for the samples of received messages.
func (m *meter) shouldSample(n int) bool {
	return m.pair != nil && m.pair.samples != nil && n <= sampled.MaxMessage
}

// sampleReceived samples a received message in an encoding.
func (m *meter) sampleReceived(message []byte, encoding string) {
	if m.pair != nil && m.pair.samples != nil {
		m.pair.samples.Add(m.pair.name(), sampled.Message{Bytes: message, Coding: encoding}, true)
	}
}

// countReceived counts a received message of n bytes that was not read.
func (m *meter) countReceived(n int) {
	if m.pair != nil && m.pair.samples != nil {
		m.pair.samples.Count(m.pair.name(), n)
	}
}

// name returns the name of the messages in samples.
func (p *pairing) name() sampled.Name {
	return sampled.Name{Method: p.method, Direction: p.direction.String()}
}

// dictFor returns the dictionary to compress a message of n bytes with, which the receiver has, or nil.
// settled is false if there is a dictionary that the receiver does not have yet: sizes of messages meanwhile
// say nothing about it.
func (m *meter) dictFor(rule *policy.MessageRule, n int) (d *codec.Dict, level int, settled bool) {
	p := m.pair
	if p == nil || p.next == nil || !rule.HasDictionary() || n > dictionary.MaxMessageSample {
		return nil, 0, true
	}
	if d = rule.Dict; d == nil {
		k := m.kindOf(rule)
		if k == nil {
			return nil, 0, true
		}
		d, level = k.Dictionary()
	}
	if d == nil || p.next.has(d) {
		return d, level, true
	}
	return nil, 0, false
}

// Settings for measuring links: the defaults of a link's level and largest window.
const (
	linkLevel  = 3
	linkWindow = 23

	linkPiece       = 64 << 10 // largest piece of a connection that is compressed at once, in bytes
	linkPieceHeader = 9        // bytes before a piece
)

// compressionMethods returns the ways to compress messages that are compared. Compressed messages may
// decompress to maxOpen bytes.
func compressionMethods(codecs *grpccodec.Set, engine *codec.Engine, maxOpen int) *sampled.Methods {
	return &sampled.Methods{
		Open: func(m sampled.Message) ([]byte, error) {
			if m.Coding == "" {
				return m.Bytes, nil
			}
			return codecs.AppendDecompress(nil, m.Bytes, m.Coding, maxOpen)
		},
		Compress: codecs.AppendCompress,
		Each:     []sampled.Method{{Setting: "s2"}, {Setting: "gzip-6"}, {Setting: "zstd-1"}, {Setting: "zstd-3"}, {Setting: codec.Proto.String(), Protobuf: true}},
		Sequences: []sampled.Sequence{
			{Method: sampled.Method{Setting: sampled.PairPlain}, Begin: func() (sampled.Writer, error) {
				return beginLink(engine, func(dst, message []byte) ([]byte, error) { return append(dst, message...), nil })
			}},
			{Method: sampled.Method{Setting: sampled.PairColumns, Protobuf: true}, Begin: func() (sampled.Writer, error) {
				var w history.Writer // as in one lane that all calls use in turn
				return beginLink(engine, func(dst, message []byte) ([]byte, error) { return w.Append(dst, message), nil })
			}},
		},
	}
}

// beginLink starts a simulated link, on which messages are written by write.
func beginLink(e *codec.Engine, write func(dst, message []byte) ([]byte, error)) (sampled.Writer, error) {
	stream, err := e.StreamWriter(linkLevel, linkWindow)
	return &linkWriter{stream: stream, write: write}, err
}

// linkWriter compresses messages as a link does, but without HTTP/2 headers.
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
