package config

import (
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// A new codec for values is not used for gRPC messages before isEncoding lists it, and not on links before isPiece
// lists it.
func TestCodecsOfValuesAlone(t *testing.T) {
	const fresh = codec.ID(15) // an unused number
	s := &Setting{Setting: codec.Setting{Codec: fresh}}
	for want, check := range map[string]func(*validator){
		"tunnels do not support " + s.String():   func(v *validator) { v.tunnelSetting(s, "setting") },
		"gRPC does not support " + s.String():    func(v *validator) { v.grpcRule(&Rule{Setting: s}, "rule") },
		"MongoDB does not support " + s.String(): func(v *validator) { v.mongoRule(&Rule{Setting: s}, "rule") },
	} {
		v := validator{problems{c: Default()}}
		check(&v)
		if !slices.ContainsFunc(v.list, func(p Problem) bool { return p.Text == want }) {
			t.Errorf("no problem says %q: %v", want, v.list)
		}
	}
}

// isEncoding and codec/grpccodec have the same codecs.
func TestEncodingsAreThoseOfGRPCCodec(t *testing.T) {
	for id := codec.Raw; id <= codec.Proto; id++ {
		if want := slices.Contains(grpccodec.Names(), id.String()); isEncoding(id) != want {
			t.Errorf("%s is an encoding for isEncoding: %v, for grpccodec.Names: %v", id, isEncoding(id), want)
		}
	}
}
