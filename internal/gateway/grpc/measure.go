package grpc

import (
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/proto/history"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// meter measures the messages of one body, for dictionaries to come, and tells which dictionary
// is there already. A call has few rules, and mostly one: the meter remembers the kind of the last.
type meter struct {
	kinds *autodict.Messages
	pair  *pairing // nil: nothing is measured, and there are no dictionaries

	unlimited bool // messages are compressed whatever the budgets

	kind *autodict.Kind // of messages under rule
	rule *policy.MessageRule
}

// kindOf returns the kind that messages under a rule belong to, nil if nobody counts them.
func (m *meter) kindOf(rule *policy.MessageRule) *autodict.Kind {
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

// saw tells that a message went as sent bytes.
func (m *meter) saw(rule *policy.MessageRule, message []byte, sent int) {
	if k := m.kindOf(rule); k != nil {
		k.Observe(message, sent)
	}
}

// passed tells that a plain message of n bytes went as it was, and that nobody looked into it.
func (m *meter) passed(rule *policy.MessageRule, n int) {
	if k := m.kindOf(rule); k != nil {
		k.Passed(n)
	}
}

// passedCompressed tells that a message went as it was, n compressed bytes.
func (m *meter) passedCompressed(n int) {
	if k := m.kindOf(nil); k != nil {
		k.PassedCompressed(n)
	}
}

// wants reports whether a plain message of n bytes that no rule covers should be looked into.
func (m *meter) wants(n int) bool {
	k := m.kindOf(nil)
	return k != nil && k.Wants(n)
}

// watches reports whether a message of n bytes is to be read into memory for a sample of what comes.
func (m *meter) watches(n int) bool {
	return m.pair != nil && m.pair.samples != nil && n <= sampled.MaxMessage
}

// came tells how a message came, and in which encoding.
func (m *meter) came(message []byte, encoding string) {
	if m.pair != nil && m.pair.samples != nil {
		m.pair.samples.Saw(m.pair.name(), sampled.Message{Bytes: message, Coding: encoding}, true)
	}
}

// cameUnread tells that a message of n bytes came, and that nobody looked into it.
func (m *meter) cameUnread(n int) {
	if m.pair != nil && m.pair.samples != nil {
		m.pair.samples.Passed(m.pair.name(), n)
	}
}

// name is what the messages are called in samples.
func (p *pairing) name() sampled.Name {
	return sampled.Name{Method: p.method, Direction: p.direction.String()}
}

// dictFor returns the dictionary to compress a message of n bytes with, which the receiver
// has. It reports false when there will be one that the receiver has not got yet: what
// messages take meanwhile says nothing about it.
func (m *meter) dictFor(rule *policy.MessageRule, n int) (d *codec.Dict, level int, settled bool) {
	p := m.pair
	if p == nil || p.next == nil || !rule.HasDictionary() || n > autodict.MaxMessageSample {
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

// linkWriter compresses messages as a link does, without HTTP/2's headers.
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
