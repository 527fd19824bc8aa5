package config

import "testing"

// A protocol without a hint of its own would get that of Redis.
func TestEveryProtocolHasAHint(t *testing.T) {
	for _, p := range Protocols() {
		if upstreamHints[p] == "" {
			t.Errorf("%s: upstreamHints does not say how its upstream is written; parseUpstream reads it", p)
		}
	}
}
