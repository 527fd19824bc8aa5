package server

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config"
)

// A protocol of the configuration without an implementation here is an error, and does not get a gateway for
// Redis.
func TestProtocolWithoutGateway(t *testing.T) {
	err := (&shared{}).addProtocol(nil, &config.Gateway{Name: "g", Protocol: "gopher"}, &running{}, nil)
	if err == nil || !strings.Contains(err.Error(), "gopher") {
		t.Error(err)
	}
}
