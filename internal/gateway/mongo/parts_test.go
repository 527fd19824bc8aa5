package mongo

import (
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

// compressionBy is what a gateway with these rules compresses by, without the gateway.
func compressionBy(t testing.TB, rules []policy.MessageRule) *compression {
	t.Helper()
	p, err := policy.NewMessages(rules)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Policy: p, Engine: codec.New(codec.Options{}), Stats: gateway.NewStats("test", "mongo")}
	cfg.complete()
	return newCompression(&cfg)
}

func pairsOf(t testing.TB, rules []policy.MessageRule) *pairs {
	t.Helper()
	c := compressionBy(t, rules)
	return newPairs(c.rules, c.codecs)
}
