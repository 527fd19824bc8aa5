package gateway

import (
	"context"
	"testing"
)

// A client that disconnects while the server is asked must not decide the answer for later clients.
func TestAuthProbeAsksAgainAfterClientLeft(t *testing.T) {
	k := &AuthProbe{Ask: func(ctx context.Context) (bool, error) { return true, ctx.Err() }}
	gone, leave := context.WithCancel(t.Context())
	leave()
	_ = k.RequiresAuth(gone)
	if !k.RequiresAuth(t.Context()) {
		t.Error("the door is open")
	}
}
