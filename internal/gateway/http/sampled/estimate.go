package sampled

import (
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway/http/bodies"
)

// byBody are the settings that are tried on each body by itself.
var byBody = []string{"gzip-6", "zstd-1", "zstd-3"}

// What a pair is called in estimates, as plan writes it; with columns or without.
const (
	pairPlain   = "pair zstd-3"
	pairColumns = "pair cinch-proto"
	pairLevel   = 3
	pairWindow  = 23
)

// estimates are ratios of bytes as they came to those that would have gone. Bodies that don't open, and none, have no estimates.
func (c *copied) estimates(coders bodies.Coders, open func(b []byte, coding string) ([]byte, error)) []autodict.Estimate {
	all := []autodict.Estimate{}
	var plain [][]byte
	var came []int
	for _, b := range c.bodies {
		if p, err := open(b.bytes, b.coding); err == nil {
			plain, came = append(plain, p), append(came, len(b.bytes))
		}
	}
	add := func(setting string, before, after int) {
		if before > 0 && after > 0 {
			all = append(all, autodict.Estimate{Setting: setting, Ratio: float64(before) / float64(after)})
		}
	}
	for _, setting := range byBody {
		before, after := alone(coders, plain, came, setting)
		add(setting, before, after)
	}
	before, after := withHistory(coders, plain, came, false)
	add(pairPlain, before, after)
	if c.protobufs {
		before, after = withHistory(coders, plain, came, true)
		add(pairColumns, before, after)
	}
	return all
}

// alone sums up what bodies had, and have when each is compressed by itself. One that grows goes as it came.
func alone(c bodies.Coders, plain [][]byte, came []int, setting string) (before, after int) {
	for i, p := range plain {
		out, err := c.Codecs.AppendCompress(nil, p, setting)
		if err != nil {
			return 0, 0
		}
		before, after = before+came[i], after+min(len(out), came[i])
	}
	return before, after
}

// withHistory does so for a connection between two gateways. The first body has no history yet, and is not counted.
func withHistory(c bodies.Coders, plain [][]byte, came []int, columns bool) (before, after int) {
	w, err := c.NewWriter(pairLevel, pairWindow)
	if err != nil {
		return 0, 0
	}
	defer w.Close()
	for i, p := range plain {
		out, err := w.Append(nil, p, columns)
		if err != nil {
			return 0, 0
		}
		if i > 0 {
			before, after = before+came[i], after+len(out)
		}
	}
	return before, after
}
