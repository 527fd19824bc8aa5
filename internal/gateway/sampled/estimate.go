package sampled

import (
	"slices"

	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
)

// Names in estimates for the settings of a pair of gateways. Package plan reads them. PairPlain is for any messages,
// PairColumns for Protocol Buffers with cinch-proto.
const (
	PairPlain   = "pair zstd-3"
	PairColumns = "pair cinch-proto"
)

// Methods lists the ways of compressing messages that are to be tried.
type Methods struct {
	Open      func(m Message) ([]byte, error) // decompresses a message as received
	Compress  func(dst, message []byte, setting string) ([]byte, error)
	Each      []Method // compress each message by itself, with Compress
	Sequences []Sequence
}

// Method is a setting to try on each message by itself.
type Method struct {
	Setting  string
	Protobuf bool // for messages of Protocol Buffers only
}

// Sequence is a setting to try on messages that are compressed with the earlier ones as history.
type Sequence struct {
	Method
	Begin func() (Writer, error)
}

// Writer compresses the messages of a session in their order.
type Writer interface {
	Append(dst, message []byte) ([]byte, error)
	Close()
}

// decoded is a message that could be decompressed.
type decoded struct {
	message       []byte
	receivedBytes int // bytes received, before decompression
}

// Estimate is the expected effect of a setting on the sampled messages.
type Estimate struct {
	Setting string  `json:"setting"`
	Ratio   float64 `json:"ratio"` // bytes before/after; messages that would grow count unchanged
}

// Limits on the decompressed bytes of messages that are measured, which bound the memory and time of measuring.
const (
	measuredOfKind = 16 << 20
	measuredBytes  = 128 << 20 // for all kinds
)

// decode decompresses the last messages of a kind, up to measuredOfKind bytes and up to left bytes, and returns them
// and how much of left remains. It leaves out messages that can't be decompressed.
func (c *snapshot) decode(w *Methods, left int) ([]decoded, int) {
	var list []decoded
	most := min(measuredOfKind, left)
	for i := len(c.last) - 1; i >= 0 && most > 0; i-- {
		m := c.last[i]
		if b, err := w.Open(m); err == nil {
			list = append(list, decoded{b, len(m.Bytes)})
			most, left = most-len(b), left-len(b)
		}
	}
	slices.Reverse(list)
	return list, max(left, 0)
}

// estimateAll returns for each method the ratio of the bytes received to the bytes that it would have sent. Methods for
// Protocol Buffers are tried only if all messages are. It returns no estimates if there are no messages.
func estimateAll(w *Methods, list []decoded, protobufs bool) []Estimate {
	all := []Estimate{}
	add := func(setting string, before, after int) {
		if before > 0 && after > 0 {
			all = append(all, Estimate{Setting: setting, Ratio: float64(before) / float64(after)})
		}
	}
	for _, way := range w.Each {
		if !way.Protobuf || protobufs {
			before, after := w.sizesAlone(list, way.Setting)
			add(way.Setting, before, after)
		}
	}
	for _, s := range w.Sequences {
		if !s.Protobuf || protobufs {
			before, after := s.sizesWithHistory(list)
			add(s.Setting, before, after)
		}
	}
	return all
}

// sizesAlone returns the total size of the messages as received, and their total size if each is compressed by
// itself. A message that would grow counts with its received size.
func (w *Methods) sizesAlone(list []decoded, setting string) (before, after int) {
	var out []byte
	var err error
	for _, m := range list {
		if out, err = w.Compress(out[:0], m.message, setting); err != nil {
			return 0, 0
		}
		before, after = before+m.receivedBytes, after+min(len(out), m.receivedBytes)
	}
	return before, after
}

// sizesWithHistory returns the total size of the messages as received, and their total size if each is compressed with
// the earlier ones as history. The first message has no history yet, and is not counted.
func (s *Sequence) sizesWithHistory(list []decoded) (before, after int) {
	w, err := s.Begin()
	if err != nil {
		return 0, 0
	}
	defer w.Close()
	var out []byte
	for i, m := range list {
		if out, err = w.Append(out[:0], m.message); err != nil {
			return 0, 0
		}
		if i > 0 {
			before, after = before+m.receivedBytes, after+len(out)
		}
	}
	return before, after
}

// Limits on the part of a sample that is compressed for an estimate.
const (
	estimateMessages = 2000
	estimateBytes    = 128 << 10
)

// Estimates compresses a part of a kind's samples with each setting, in the caller's goroutine. It returns no
// estimates if there are no samples.
func (m *Messages) Estimates(s KindStatus, settings []string, compress func(dst, src []byte, setting string) ([]byte, error)) []Estimate {
	var samples [][]byte
	m.mu.Lock()
	for name, k := range m.kinds {
		if name.Method == s.Method && name.Direction.String() == s.Direction {
			samples = reservoir.Bounded(k.sampler.Values(), estimateMessages, estimateBytes)
		}
	}
	m.mu.Unlock()
	all := []Estimate{}
	var buf []byte
	for _, setting := range settings {
		raw, sent := 0, 0
		for _, v := range samples {
			var err error
			if buf, err = compress(buf[:0], v, setting); err != nil {
				return all
			}
			raw, sent = raw+len(v), sent+min(len(v), len(buf))
		}
		if raw > 0 {
			all = append(all, Estimate{setting, float64(raw) / float64(max(sent, 1))})
		}
	}
	return all
}
