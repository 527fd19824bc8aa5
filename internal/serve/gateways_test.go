package serve

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config"
)

// A protocol that the configuration knows and nothing here makes a gateway for is an error, and
// no gateway for Redis.
func TestProtocolWithoutGateway(t *testing.T) {
	err := (&shared{}).fill(nil, &config.Gateway{Name: "g", Protocol: "gopher"}, &running{}, nil)
	if err == nil || !strings.Contains(err.Error(), "gopher") {
		t.Error(err)
	}
}
