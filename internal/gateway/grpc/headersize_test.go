package grpc

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Metadata that is longer than the server takes fails for good, as it does without a gateway: clients repeat calls that end with
// UNAVAILABLE.
func TestMetadataLongerThanTheServerTakes(t *testing.T) {
	server := startServer(t, echo, grpc.MaxHeaderListSize(16<<10))
	g := startGateway(t, "grpc://"+server, nil)
	for name, addr := range map[string]string{"direct": server, "gateway": g.addr} {
		c := connect(t, addr)
		if _, err := unary(within(t), c, "Unary", []byte("first")); err != nil { // now the server's settings are known
			t.Fatal(name, err)
		}
		ctx := metadata.AppendToOutgoingContext(within(t), "x-long", strings.Repeat("m", 20<<10))
		if _, err := unary(ctx, c, "Unary", []byte("long")); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "header list") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := unary(within(t), c, "Unary", []byte("next")); err != nil {
			t.Error(name, err)
		}
	}
}
