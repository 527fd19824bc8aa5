package dictionary

import (
	"cmp"
	"slices"
	"strings"
)

// SizeBucket is the number of messages of at most UpTo bytes that are longer than those of the previous
// bucket.
type SizeBucket struct {
	UpTo     uint64 `json:"up_to_bytes"`
	Messages uint64 `json:"messages"`
}

// KindStatus holds statistics of the messages of one method and direction, and nothing of their content.
type KindStatus struct {
	Method    string       `json:"method"`
	Direction string       `json:"direction"`
	Messages  uint64       `json:"messages"`
	Bytes     uint64       `json:"bytes"` // uncompressed
	Sizes     []SizeBucket `json:"sizes"`

	Compressed      uint64 `json:"compressed_messages"` // not included in the above; content not examined
	CompressedBytes uint64 `json:"compressed_bytes"`

	SampleMessages int `json:"sample_messages"`
	SampleBytes    int `json:"sample_bytes"` // memory
}

// Status returns the state of every kind, those with the most bytes first.
func (m *Messages) Status() []KindStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]KindStatus, 0, len(m.kinds))
	for _, k := range m.kinds {
		all = append(all, k.status())
	}
	slices.SortFunc(all, func(a, b KindStatus) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Method, b.Method), strings.Compare(a.Direction, b.Direction))
	})
	return all
}

// Samples returns how many kinds there are, and the bytes that their samples take.
func (m *Messages) Samples() (kinds, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.kinds {
		_, n := k.sampler.size()
		bytes += n
	}
	return len(m.kinds), bytes
}

func (k *Kind) status() KindStatus {
	s := KindStatus{
		Method: k.name.Method, Direction: k.name.Direction.String(),
		Bytes: k.sizes.bytes.Load(), Compressed: k.compressed.Load(), CompressedBytes: k.compressedBytes.Load(), Sizes: []SizeBucket{},
	}
	for i := range k.sizes.buckets {
		if n := k.sizes.buckets[i].Load(); n > 0 {
			s.Messages += n
			s.Sizes = append(s.Sizes, SizeBucket{1<<i - 1, n})
		}
	}
	s.SampleMessages, s.SampleBytes = k.sampler.size()
	return s
}

// Estimate is the expected effect of a setting on the sampled messages.
type Estimate struct {
	Setting string  `json:"setting"`
	Ratio   float64 `json:"ratio"` // bytes before/after; messages that would grow count unchanged
}

// estimateBytes limits the part of a sample that is compressed for an estimate.
const estimateBytes = 128 << 10

// Estimates compresses a part of a kind's samples with each setting, on the caller's goroutine. It returns
// none without samples.
func (m *Messages) Estimates(s KindStatus, settings []string, compress func(dst, src []byte, setting string) ([]byte, error)) []Estimate {
	var samples [][]byte
	m.mu.Lock()
	for name, k := range m.kinds {
		if name.Method == s.Method && name.Direction.String() == s.Direction {
			samples = bounded(k.sampler.values(), maxValidation, estimateBytes)
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
