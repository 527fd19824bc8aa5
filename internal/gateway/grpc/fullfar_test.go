package grpc

import (
	"testing"

	"github.com/cinch-layer/cinch/internal/policy"
)

// By default a client whose links a full far gateway refuses shares connections with the others.
func TestDefaultLinksOfFullGateway(t *testing.T) {
	far := startGateway(t, "grpc://"+startServer(t, echo), func(c *Config) { c.Links, c.Peers, c.MaxConns = slowLinks(), true, 3 })
	near := startGateway(t, "grpc://"+far.addr, func(c *Config) { c.Links, c.Link = slowLinks(), LinkDefault })
	near.SetPolicy(rulesOf(t, policy.MessageRule{Setting: protoRule.Setting, MinSize: 64}))
	for range 8 {
		c := connect(t, near.addr)
		for range 3 {
			if _, err := unary(within(t), c, "Unary", protobuf(20)); err != nil {
				t.Error(err)
			}
		}
	}
}
