package dict

import (
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

// segmentLens lists the segment lengths to try, in bytes. The best one depends on the length of the values'
// common parts.
var segmentLens = []int{48, 128, 400, 1200}

// Limits of the samples on which segment lengths are compared, and of the level: higher ones take 10 ms per
// value in pure Go.
const (
	maxTrials     = 200
	maxTrialLevel = 9
)

// trainCover tries segment lengths on three quarters of the samples, evaluated on the last quarter, and then
// uses all samples with the best length.
func trainCover(samples [][]byte, o TrainOptions) ([]byte, error) {
	k := o.Segment
	if k == 0 {
		k = bestSegmentLen(samples, o)
	}
	c := newCover(samples)
	return coverContent(c, o, k, c.shared)
}

func bestSegmentLen(samples [][]byte, o TrainOptions) int {
	learn, judge := Split(samples, 4)
	if len(judge) > maxTrials {
		judge = judge[:maxTrials]
	}
	c := newCover(learn)
	z := codec.NewGoZstd()
	best, least := segmentLens[0], -1
	for _, k := range segmentLens {
		if k > o.Size {
			continue
		}
		content, err := coverContent(c, o, k, c.content) // without cutting out rare strings, to save time
		if err != nil {
			continue
		}
		if n, err := compressedLen(z, content, judge, min(o.Level, maxTrialLevel)); err == nil && (least < 0 || n < least) {
			best, least = k, n
		}
	}
	return best
}

func coverContent(c *cover, o TrainOptions, k int, choose func(size, k int) []byte) ([]byte, error) {
	if o.Algorithm == Content {
		return enough(choose(o.Size, k))
	}
	content, err := enough(choose(o.Size-tableBytes, k))
	if err != nil {
		return nil, err
	}
	if trained, err := withTables(content, c.samples); err == nil && len(trained) <= o.Size {
		return trained, nil
	}
	return content, nil // all samples are so similar that there is nothing to count
}

func enough(content []byte) ([]byte, error) {
	if len(content) < codec.MinDictLen {
		return nil, fmt.Errorf("%w: they have only %d bytes in common", ErrSamples, len(content))
	}
	return content, nil
}

func compressedLen(z codec.ZstdCoder, content []byte, values [][]byte, level int) (total int, err error) {
	d, err := codec.NewDict(content)
	if err != nil {
		return 0, err
	}
	var out []byte
	for _, v := range values {
		if out, err = z.Compress(out[:0], v, level, d); err != nil {
			return 0, err
		}
		total += min(len(out), len(v))
	}
	return total, nil
}
