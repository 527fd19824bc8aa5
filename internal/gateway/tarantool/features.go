package tarantool

import (
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// Features of the protocol that change what tuples and arguments look like on the wire, so
// that values in them would not be found, by their numbers: tuples as extensions in replies to
// requests for data (7) and to calls (8) and in arguments (9), and Arrow (12). What was invented
// after those is not known here.
func understands(feature uint64) bool {
	switch feature {
	case 7, 8, 9:
		return false
	}
	return feature < 12
}

// withoutFeatures gives a frame, in a buffer of the pool's, that names only features that we
// understand; nil when there are no others.
func withoutFeatures(b []byte, body *wire.Body) []byte {
	if body.Features.Len == 0 {
		return nil
	}
	spans, _, err := wire.Elements(nil, b, body.Features.At, maxFeatures)
	if err != nil {
		return nil
	}
	var kept []uint64
	for _, at := range spans {
		if n, ok := wire.Uint(at.Of(b)); ok && understands(n) {
			kept = append(kept, n)
		}
	}
	if len(kept) == len(spans) {
		return nil
	}
	out := append(wire.BeginFrame(gateway.GetBuffer(len(b)+64)), b[:body.Features.At]...)
	out = wire.AppendUints(out, kept)
	return wire.FinishFrame(append(out, b[body.Features.End():]...), 0)
}

// maxFeatures is more than there are.
const maxFeatures = 1024
