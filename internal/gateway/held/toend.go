package held

import (
	"io"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// ToEnd reads a body whose length nobody has said, up to most bytes, twice of which are taken of the budget. It reports false where
// the body is longer or there is no memory: then it has the beginning. What it returns is a pooled buffer.
func (g *Gatherer) ToEnd(most int) (in []byte, complete bool, err error) {
	for {
		size := min(most, max(firstGather, 2*len(in)))
		if len(in) >= most || !g.Grant.Try(2*int64(size)-g.Grant.held) {
			return in, false, nil
		}
		have := len(in)
		grown := append(gateway.GetBuffer(size), in...)
		gateway.PutBuffer(in)
		got, err := g.fill(grown[have:size])
		in = grown[:have+got]
		switch {
		case err == io.EOF:
			return in, true, nil
		case err != nil:
			gateway.PutBuffer(in)
			return nil, false, err
		}
	}
}
