package dict

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

// ErrSamples reports samples that are too few, too short, or have nothing in common.
var ErrSamples = errors.New("samples unfit for a dictionary")

// Algorithm is a method of making a dictionary from samples.
type Algorithm uint8

// The algorithms.
const (
	// Cover selects the segments whose strings occur in most samples, and adds entropy tables if the samples
	// allow it.
	Cover Algorithm = iota
	// Content is Cover without entropy tables.
	Content
	// External calls TrainOptions.External.
	External
)

// String returns the algorithm's name.
func (a Algorithm) String() string {
	switch a {
	case Cover:
		return "cover"
	case Content:
		return "content"
	case External:
		return "external"
	default:
		return fmt.Sprintf("algorithm(%d)", uint8(a))
	}
}

// Trainer makes a trained zstd dictionary of up to size bytes, for example libzstd.Train. It must not change or
// keep samples.
type Trainer func(samples [][]byte, size int) ([]byte, error)

// TrainOptions configures training. The zero value is the default.
type TrainOptions struct {
	Size      int       // maximum size of the dictionary in bytes, 1 KiB to codec.MaxDictLen; 0: 16 KiB
	Level     int       // zstd level that it is optimized for, 1 to 22; 0: 3
	Algorithm Algorithm // Cover by default
	Segment   int       // bytes per segment of Cover and Content, 8 to Size; 0: the best of SegmentLens
	External  Trainer   // required for the algorithm External only
}

// Limits of the training data.
const (
	defaultSize    = 16 << 10
	minSize        = 1 << 10
	minSamples     = 8
	samplesPerSize = 100      // a dictionary learns little from more than 100 times its size
	minSampleBytes = 1 << 20  // but at least this much is used
	maxSampleLen   = 64 << 10 // bytes used of the beginning of a sample
	tableBytes     = 384      // maximum size of entropy tables, nearly always
	firstID        = 32768    // smaller dictionary IDs are reserved, and so are those above 2^31
	idRange        = 1<<31 - firstID
)

func (o *TrainOptions) setDefaults() error {
	if o.Size == 0 {
		o.Size = defaultSize
	}
	if o.Level == 0 {
		o.Level = 3
	}
	switch {
	case o.Size < minSize || o.Size > codec.MaxDictLen:
		return fmt.Errorf("%w: a size of %d bytes, want %d to %d", codec.ErrDictionary, o.Size, minSize, codec.MaxDictLen)
	case o.Level < 1 || o.Level > codec.Zstd.MaxLevel():
		return fmt.Errorf("%w: invalid level %d", codec.ErrDictionary, o.Level)
	case o.Algorithm > External || o.Algorithm == External && o.External == nil:
		return fmt.Errorf("%w: algorithm %s is not available", codec.ErrDictionary, o.Algorithm)
	case o.Segment != 0 && (o.Segment < dmerLen || o.Segment > o.Size):
		return fmt.Errorf("%w: invalid segment size of %d bytes", codec.ErrDictionary, o.Segment)
	}
	return nil
}

// Train makes a dictionary from samples, which should be complete values of the kind to compress: at least 8
// of 8 bytes or more, better a thousand, together a hundred times the dictionary's size. Samples are neither
// changed nor kept. Strings of 8 bytes that fewer than three of them contain do not get into the dictionary.
//
// Of each sample the first 64 KiB are used. If that is together more than 100 times the dictionary's size and
// more than 1 MiB, only that much is used, in samples spread evenly over the whole. Memory stays within a few
// times that.
//
// The error wraps [ErrSamples] if it is caused by the samples or by an external trainer, and
// codec.ErrDictionary if it is caused by the options.
func Train(samples [][]byte, o TrainOptions) (*codec.Dict, error) {
	s, err := Select(samples, o)
	if err != nil {
		return nil, err
	}
	return s.Dict(s.options.Size)
}

// usable returns the beginnings of the samples that are long enough, or of some of them if all together are too long.
func usable(samples [][]byte, o TrainOptions) (all [][]byte) {
	most := max(samplesPerSize*o.Size, minSampleBytes)
	total := 0
	for _, s := range samples {
		if len(s) >= dmerLen {
			s = s[:min(len(s), maxSampleLen)]
			all = append(all, s)
			total += len(s)
		}
	}
	return spread(all, total, most)
}

// spread returns samples of most bytes or less, evenly from all, which have total bytes.
func spread(all [][]byte, total, most int) (some [][]byte) {
	if total <= most {
		return all
	}
	for i, taken := 0, 0; i < len(all); i++ {
		// Take a sample when the share taken falls behind the share passed.
		if int64(taken) <= int64(most)*int64(i)/int64(len(all)) && taken+len(all[i]) <= most {
			some = append(some, all[i])
			taken += len(all[i])
		}
	}
	return some
}

// zstdID derives a dictionary's zstd ID from its content, so that the same samples give the same dictionary.
// Cinch's frames never name it.
func zstdID(parts ...[]byte) uint32 {
	h := sha256.New()
	for _, p := range parts {
		_, _ = h.Write(p)
	}
	return firstID + binary.BigEndian.Uint32(h.Sum(nil))%idRange
}
