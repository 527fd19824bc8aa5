package dict

import "github.com/cinch-layer/cinch/codec"

// SegmentLens lists the segment lengths from which the best is chosen, in bytes. The best one depends on the length of
// the values' common parts. It must not be modified.
var SegmentLens = []int{48, 128, 400, 1200, 3600, 10_000}

// Limits of the samples on which segment lengths are compared, and of the level: higher ones take 10 ms per
// value in pure Go.
const (
	maxTrials     = 200
	maxTrialLevel = 9
)

// bestSegmentLen tries segment lengths on three quarters of the samples, and evaluates them on the last quarter.
func bestSegmentLen(samples [][]byte, o TrainOptions) int {
	learn, judge := Split(samples, 4)
	if len(judge) > maxTrials {
		judge = judge[:maxTrials]
	}
	c := newCover(learn)
	z := codec.NewGoZstd()
	best, least := SegmentLens[0], -1
	for _, k := range SegmentLens {
		if k > o.Size {
			continue
		}
		content := c.content(o.Size, k) // without cutting out rare strings, to save time
		if n, err := compressedLen(z, content, judge, min(o.Level, maxTrialLevel)); err == nil && (least < 0 || n < least) {
			best, least = k, n
		}
	}
	return best
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
