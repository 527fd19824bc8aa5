package grpc

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Metadata longer than the server's limit fails permanently, as without a gateway, and not with UNAVAILABLE,
// for which clients retry.
func TestMetadataLongerThanTheServerTakes(t *testing.T) {
	server := startServer(t, echo, grpc.MaxHeaderListSize(16<<10))
	g := startGateway(t, "grpc://"+server, nil)
	for name, addr := range map[string]string{"direct": server, "gateway": g.addr} {
		c := connect(t, addr)
		// This call learns the server's settings.
		if _, err := unary(within(t), c, "Unary", []byte("first")); err != nil {
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
