package grpc

import (
	"fmt"
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
)

// What a hop costs: calls one after the other, directly, through a gateway that touches
// nothing, and through two with zstd-1 between them.
func BenchmarkUnary(b *testing.B) {
	server := startServer(b, echo)
	plain := startGateway(b, "grpc://"+server, nil)
	rule := policy.MessageRule{Setting: set(b, "zstd-1"), MinSize: 64}
	far := startGateway(b, "grpc://"+server, nil)
	far.SetPolicy(rulesOf(b, policy.MessageRule{Setting: set(b, "raw"), Direction: policy.Request}, rule))
	near := startGateway(b, "grpc://"+far.addr, nil)
	near.SetPolicy(rulesOf(b, rule))
	for _, way := range []struct{ name, addr string }{{"direct", server}, {"plain", plain.addr}, {"two", near.addr}} {
		for _, n := range []int{100, 10_000, 1_000_000} {
			b.Run(fmt.Sprintf("%s/%d", way.name, n), func(b *testing.B) {
				c := connect(b, way.addr)
				in := payload(n)
				b.ReportAllocs()
				b.SetBytes(int64(n))
				for b.Loop() {
					mustEcho(b, c, in)
				}
			})
		}
	}
}
