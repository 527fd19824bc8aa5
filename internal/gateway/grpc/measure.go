package grpc

import (
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// meter measures the messages of one body.
type meter struct {
	kinds    *sampled.Messages
	measured *measuring // nil: nothing is measured

	kind *sampled.Kind // of the messages; nil: not known yet, or there are too many kinds
}

// kindOf returns the kind of the messages, or nil if they are not counted.
func (m *meter) kindOf() *sampled.Kind {
	if m.measured != nil && m.kind == nil {
		m.kind = m.kinds.Kind(m.measured.method, m.measured.direction)
	}
	return m.kind
}

// observeSent records a message that was sent. It is given decompressed, even if it was sent compressed.
func (m *meter) observeSent(message []byte) {
	if k := m.kindOf(); k != nil {
		k.Observe(message)
	}
}

// countUnchanged records a plain message of n bytes that was sent unchanged and unread.
func (m *meter) countUnchanged(n int) {
	if k := m.kindOf(); k != nil {
		k.Passed(n)
	}
}

// countCompressed records a message of n compressed bytes that was sent unchanged.
func (m *meter) countCompressed(n int) {
	if k := m.kindOf(); k != nil {
		k.PassedCompressed(n)
	}
}

// shouldRead reports whether to read a plain message of n bytes that no rule covers.
func (m *meter) shouldRead(n int) bool {
	k := m.kindOf()
	return k != nil && k.Wants(n)
}

// shouldSample reports whether to read a message of n bytes for the samples of received messages.
func (m *meter) shouldSample(n int) bool { return m.measured != nil && n <= sampled.MaxMessage }

// sampleReceived samples a received message in an encoding.
func (m *meter) sampleReceived(message []byte, encoding string) {
	if m.measured != nil {
		m.measured.samples.Add(m.measured.name(), sampled.Message{Bytes: message, Coding: encoding, Protobuf: true})
	}
}

// countReceived counts a received message of n bytes that was not read.
func (m *meter) countReceived(n int) {
	if m.measured != nil {
		m.measured.samples.Count(m.measured.name(), n)
	}
}

// name returns the name of the messages in samples.
func (p *measuring) name() sampled.Name {
	return sampled.Name{Method: p.method, Direction: p.direction.String()}
}

// compressionMethods returns the compression methods to compare. Compressed messages may decompress to maxOpen bytes.
func compressionMethods(codecs *grpccodec.Set, engine *codec.Engine, maxOpen int) *sampled.Methods {
	return &sampled.Methods{
		Open: func(m sampled.Message) ([]byte, error) {
			if m.Coding == "" {
				return m.Bytes, nil
			}
			return codecs.AppendDecompress(nil, m.Bytes, m.Coding, maxOpen)
		},
		Compress:  codecs.AppendCompress,
		Each:      []sampled.Method{{Setting: "s2"}, {Setting: "gzip-6"}, {Setting: "zstd-1"}, {Setting: "zstd-3"}, {Setting: codec.Proto.String(), Protobuf: true}},
		Sequences: sampled.LinkSequences(engine, func(dst []byte, n int) []byte { return wire.AppendHeader(dst, true, n) }),
	}
}
