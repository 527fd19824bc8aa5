package source

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/estimate/plan"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// record returns a JSON document of 600 to 1,000 bytes.
func record(r *rand.Rand) []byte {
	b := fmt.Appendf(nil, `{"id":"%08x-%04x","customer":{"number":%d,"name":"%s %s","city":"%s","since":"20%02d-%02d-%02d"},"orders":[`, r.Uint32(), r.IntN(1<<16), r.IntN(1e7), pick(r), pick(r), pick(r), r.IntN(26), 1+r.IntN(12), 1+r.IntN(28))
	for i := range 3 + r.IntN(4) {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"order_id":%d,"product":"%s %s","quantity":%d,"unit_price":"%d.%02d","currency":"EUR","status":"%s"}`, r.IntN(1e8), pick(r), pick(r), 1+r.IntN(5), r.IntN(200), r.IntN(100), []string{"paid", "shipped", "returned"}[r.IntN(3)])
	}
	return fmt.Appendf(b, `],"balance":%d.%02d,"newsletter":%v}`, r.IntN(1000), r.IntN(100), r.IntN(2) > 0)
}

func pick(r *rand.Rand) string {
	words := []string{"Silver", "Harbour", "Maple", "Copper", "Winter", "Lantern", "Meadow", "Granite", "Willow", "Amber", "Cedar", "Falcon", "Juniper", "Marble", "Orchard", "Pepper"}
	return words[r.IntN(len(words))]
}

// holder stores values, and measures their memory.
type holder struct {
	t testing.TB
	c *goredis.Client
}

func (h holder) set(pattern string, values [][]byte) (memory int64) {
	h.t.Helper()
	ctx := context.Background()
	pipe := h.c.Pipeline()
	for i, v := range values {
		pipe.Set(ctx, fmt.Sprintf(pattern, i), v, 0)
	}
	var used []*goredis.IntCmd
	for i := range values {
		used = append(used, pipe.MemoryUsage(ctx, fmt.Sprintf(pattern, i)))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		h.t.Fatal(err)
	}
	for _, u := range used {
		memory += u.Val()
	}
	return memory
}

// glide compresses as Valkey GLIDE does.
func glide(w *zstd.Encoder, values [][]byte) [][]byte {
	all := make([][]byte, len(values))
	for i, v := range values {
		all[i] = w.EncodeAll(v, []byte{0, 1, 2, 0, 1})
	}
	return all
}

func records(r *rand.Rand, n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = record(r)
	}
	return all
}

type only struct{ d *codec.Dict }

func (o only) Dictionary(uint32) (*codec.Dict, error) { return o.d, nil }

// The saving that a plan states for re-sealing matches the server's memory when the content of other values
// of the same kind is compressed with the plan's dictionary.
func TestForeignValuesAgainstRedis(t *testing.T) {
	server := testenv.Redis(t)
	h := holder{t, goredis.NewClient(&goredis.Options{Addr: server.Addr})}
	defer h.c.Close()
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	const values = 600
	r := rand.New(rand.NewPCG(12, 1))
	h.set("app:user:%d", glide(w, records(r, values)))
	h.set("app:flag:%d", [][]byte{[]byte("on"), []byte("off")})

	p := plan.Options{Engine: codec.New(codec.Options{}), Candidates: plan.DefaultCandidates(), Minimize: plan.MinBytes}
	if z, ok := libzstd.New(); ok { // as in the binary
		p.Engine, p.Train = codec.New(codec.Options{Zstd: z}), libzstd.Train
	}
	if p.Prices, err = price.Default(); err != nil {
		t.Fatal(err)
	}
	c, err := Collect(t.Context(), "redis://"+server.Addr, &p, Options{MaxBytes: 1 << 30, Share: 0.9, Until: time.Now().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := plan.Make(t.Context(), c, p)
	if err != nil {
		t.Fatal(err)
	}
	g := rep.Groups[0]
	x := g.Foreign
	if g.Pattern != "app:user:*" || x == nil || x.Format != "glide-zstd" || x.Rule != "glide" || x.Samples != values || x.Opened != values || x.Plain+x.Unopened != 0 || x.Resealed.Chosen() == nil {
		t.Fatalf("%s: %+v", g.Pattern, x)
	}
	o := x.Resealed.Chosen()
	setting, err := codec.ParseSetting(o.Name[:len(o.Name)-len("+dict")])
	if err != nil {
		t.Fatal(err)
	}
	setting.Dict = x.Resealed.Trained.Number()

	others := records(r, values)
	held := glide(w, others)
	before := h.set("held:%d", held)
	sealer := envelope.NewSealer(envelope.SealerOptions{Engine: p.Engine, Dicts: only{x.Resealed.Trained}})
	rule := policy.Rule{MinGain: policy.DefaultMinGain}
	worth := func(raw, sealed int) bool { return rule.SavesEnough(policy.String, raw, sealed) }
	for i, content := range others {
		if sealed, did := sealer.SealContent(nil, content, envelope.Foreign{Format: uint8(clientformat.GlideZstd)}, len(held[i]), setting, worth); did.Sealed {
			held[i] = sealed
		}
	}
	after := h.set("held:%d", held)
	forecast, saved := float64(x.Saved+o.DictionaryCost), float64(before-after)
	t.Logf("%s: %.0f bytes less, says the plan; %.0f, says the server", o.Name, forecast, saved)
	if math.Abs(forecast-saved) > 0.05*saved || saved < 0.2*float64(before) {
		t.Errorf("%.0f bytes less of %d, says the plan; %.0f, says the server", forecast, before, saved)
	}
}
