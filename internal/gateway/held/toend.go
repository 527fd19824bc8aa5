package held

import (
	"io"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// ToEnd reads a body of unknown length, up to most bytes, and takes twice its size from the budget. If the
// body reaches most bytes or the budget runs out, complete is false and in is the beginning. The result is a
// pooled buffer.
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
