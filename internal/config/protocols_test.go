package config

import "testing"

// Without a hint of its own a protocol would get that of Redis.
func TestEveryProtocolHasAHint(t *testing.T) {
	for _, p := range Protocols() {
		if upstreamHints[p] == "" {
			t.Errorf("%s: upstreamHints does not say how its upstream is written; parseUpstream reads it", p)
		}
	}
}
