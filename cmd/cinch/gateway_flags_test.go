package main

import (
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/internal/config"
)

// Every protocol has a flag for a gateway without a file.
func TestEveryProtocolHasAFlag(t *testing.T) {
	for _, p := range config.Protocols() {
		if !slices.ContainsFunc(gatewayFlags, func(f gatewayFlag) bool { return f.protocol == p }) {
			t.Errorf("no flag asks for a gateway of protocol %s: add one to gatewayFlags", p)
		}
	}
}
