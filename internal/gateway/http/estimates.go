package http

import (
	"github.com/cinch-layer/cinch/internal/gateway/http/bodies"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
)

// What a pair is measured with: what it has unless somebody says otherwise.
const (
	pairLevel  = 3
	pairWindow = 23
)

// waysOf are those in which bodies may go on.
func waysOf(c bodies.Coders, open func(m sampled.Message) ([]byte, error)) *sampled.Ways {
	pair := func(columns bool) func() (sampled.Writer, error) {
		return func() (sampled.Writer, error) {
			w, err := c.NewWriter(pairLevel, pairWindow)
			return pairWriter{w, columns}, err
		}
	}
	return &sampled.Ways{
		Open:     open,
		Compress: c.Codecs.AppendCompress,
		Each:     []sampled.Way{{Setting: "gzip-6"}, {Setting: "zstd-1"}, {Setting: "zstd-3"}},
		Sequences: []sampled.Sequence{
			{Way: sampled.Way{Setting: sampled.PairPlain}, Begin: pair(false)},
			{Way: sampled.Way{Setting: sampled.PairColumns, Protobuf: true}, Begin: pair(true)},
		},
	}
}

// pairWriter is a history between two gateways, all bodies as columns or none.
type pairWriter struct {
	*bodies.Writer
	columns bool
}

func (w pairWriter) Append(dst, body []byte) ([]byte, error) {
	return w.Writer.Append(dst, body, w.columns)
}
