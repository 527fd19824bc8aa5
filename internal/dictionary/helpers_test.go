package dictionary

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

func autoPolicy(t testing.TB) *policy.Policy {
	t.Helper()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "docs", Key: "doc:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Auto: true},
		{Name: "rest", Setting: codec.Setting{Codec: codec.LZ4}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newEngine() *codec.Engine { return codec.New(codec.Options{}) }

// document returns a small document, similar to others of its shape.
func document(r *rand.Rand, shape int) []byte {
	if shape == 0 {
		return fmt.Appendf(nil, `{"order_id":"%08x","customer":{"id":%d,"tier":"gold"},"status":"shipped","total":%d.%02d,"created_at":"2026-%02d-%02dT10:00:00Z"}`,
			r.Uint32(), r.IntN(1e6), r.IntN(500), r.IntN(100), r.IntN(12)+1, r.IntN(28)+1)
	}
	return fmt.Appendf(nil, `{"sensorSerial":"%08x","celsius":%d,"humidityPercent":%d,"battery":"discharging","building":"headquarters","measuredAtUnix":%d}`,
		r.Uint32(), r.IntN(40), r.IntN(100), 1790000000+r.IntN(1e7))
}

func documents(n, shape int) [][]byte {
	r := rand.New(rand.NewPCG(uint64(n), uint64(shape)))
	all := make([][]byte, n)
	for i := range all {
		all[i] = document(r, shape)
	}
	return all
}

func dictForTest() (*codec.Dict, error) {
	return codec.NewDict(document(rand.New(rand.NewPCG(1, 1)), 0))
}

// optionsForTest completes options for a part of a manager. Policies put into force are dropped.
func optionsForTest(o Options) *Options {
	if o.Apply == nil {
		o.Apply = func(*policy.Policy) {}
	}
	o.setDefaults()
	return &o
}
