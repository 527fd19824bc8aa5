package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// documents makes small JSON documents of several shapes, which differ between worlds.
type documents struct {
	random *rand.Rand
	world  int
}

func (d *documents) next() []byte {
	r := d.random
	id := func() string { return fmt.Sprintf("%08x", r.Uint32()) }
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	if d.world == 1 {
		return fmt.Appendf(nil, `{"sensorSerial":"%s","reading":{"celsius":%d.%d,"humidityPercent":%d,"pressureHectopascal":%d},"battery":"%s","firmwareRevision":"4.%d.%d","siteLocation":{"building":"%s","floorNumber":%d,"roomCode":"%s"},"measuredAtUnix":%d}`,
			id(), r.IntN(40), r.IntN(100), r.IntN(100), 900+r.IntN(150), pick("charging", "discharging", "depleted"), r.IntN(9), r.IntN(30),
			pick("north-annex", "headquarters", "laboratory-wing"), r.IntN(12), id()[:4], 1790000000+r.IntN(1e7))
	}
	switch r.IntN(3) {
	case 0:
		return fmt.Appendf(nil, `{"order_id":"%s","customer":{"id":%d,"tier":"%s","country":"%s"},"items":[{"sku":"SKU-%05d","quantity":%d,"unit_price":%d.%02d}],"status":"%s","created_at":"2026-%02d-%02dT%02d:%02d:00Z"}`,
			id(), r.IntN(1e6), pick("gold", "silver", "bronze"), pick("DE", "FR", "US", "JP"), r.IntN(1e5), r.IntN(9)+1, r.IntN(500), r.IntN(100),
			pick("pending", "shipped", "delivered", "cancelled"), r.IntN(12)+1, r.IntN(28)+1, r.IntN(24), r.IntN(60))
	case 1:
		return fmt.Appendf(nil, `{"session":"%s%s","user_id":%d,"roles":["%s","reader"],"preferences":{"language":"%s","theme":"%s","notifications":%t},"last_seen":%d,"user_agent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/%d.0.0.0"}`,
			id(), id(), r.IntN(1e6), pick("admin", "editor", "author"), pick("en", "de", "fr"), pick("dark", "light"), r.IntN(2) == 0, 1790000000+r.IntN(1e7), 100+r.IntN(40))
	}
	return fmt.Appendf(nil, `{"type":"page_view","event_id":"%s","url":"https://shop.example.com/products/%d?ref=%s","referrer":"https://www.%s.com/","viewport":{"width":%d,"height":%d},"duration_ms":%d,"experiment":{"name":"checkout-redesign","variant":"%s"}}`,
		id(), r.IntN(1e5), pick("mail", "search", "social"), pick("google", "bing", "duckduckgo"), 320+r.IntN(1600), 480+r.IntN(900), r.IntN(60000), pick("a", "b", "control"))
}

// autoGateway is a separate serve with a rule whose dictionary is managed.
type autoGateway struct {
	*served
	file   string
	client *goredis.Client
}

const fastTraining = "training: {min_samples: 400, interval: 50ms, poll: 50ms, drift: 15%, cpu: 99%}"

func startAuto(t *testing.T, upstream string) *autoGateway {
	t.Helper()
	path := socket(t)
	g := &autoGateway{file: filepath.Join(t.TempDir(), "cinch.yaml")}
	g.write(t, path, upstream, "")
	g.served = startServe(t, serveOptions{configFile: g.file})
	g.logged("gateway listens")
	g.client = goredis.NewClient(&goredis.Options{Network: "unix", Addr: path, DisableIdentity: true, ReadTimeout: time.Minute})
	t.Cleanup(func() {
		_ = g.client.Close()
		g.stop(os.Interrupt)
		if t.Failed() {
			t.Log(g.log.String())
		}
	})
	return g
}

func (g *autoGateway) write(t *testing.T, path, upstream, more string) {
	t.Helper()
	text := fmt.Sprintf("admin: {listen: off}\n%s\ngateways:\n  - name: g\n    protocol: redis\n    listen: \"unix:%s\"\n    upstream: \"redis://%s\"\n"+
		"    rules:\n      - {name: docs, key: \"doc:*\", setting: zstd-3, dictionary: auto, no_sample: [\"doc:secret:*\"]}\n%s", fastTraining, path, upstream, more)
	if err := os.WriteFile(g.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// set writes n documents under prefix.
func (g *autoGateway) set(t *testing.T, prefix string, d *documents, n int) {
	t.Helper()
	for at := 0; at < n; at += 500 {
		if _, err := g.client.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
			for i := at; i < min(at+500, n); i++ {
				p.Set(t.Context(), fmt.Sprintf("%s%d", prefix, i), d.next(), 0)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// stored returns the size of documents as compressed in the server, and their size with zstd alone, as without. It
// counts the dictionaries that the stored documents name.
func stored(t *testing.T, server *goredis.Client, values [][]byte, prefix string) (bytes, without int, numbers map[uint32]int) {
	t.Helper()
	sealer := envelope.NewSealer(envelope.SealerOptions{Engine: newEngine()})
	numbers = map[uint32]int{}
	for i, v := range values {
		b, err := server.Get(t.Context(), fmt.Sprintf("%s%d", prefix, i)).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		bytes += len(b)
		without += len(sealer.Seal(nil, v, codec.Setting{Codec: codec.Zstd, Level: 3}, nil))
		if h, err := envelope.ParseHeader(b); err == nil {
			numbers[h.Dict]++
		}
	}
	return bytes, without, numbers
}

// measure writes fresh documents and compares them with what zstd alone stores.
func (g *autoGateway) measure(t *testing.T, server *goredis.Client, d *documents) (share float64, numbers map[uint32]int) {
	t.Helper()
	var values [][]byte
	for i := range 200 {
		v := d.next()
		values = append(values, v)
		if err := g.client.Set(t.Context(), fmt.Sprintf("doc:measured:%d", i), v, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	bytes, without, numbers := stored(t, server, values, "doc:measured:")
	for i, v := range values {
		if got, err := g.client.Get(t.Context(), fmt.Sprintf("doc:measured:%d", i)).Bytes(); err != nil || string(got) != string(v) {
			t.Fatalf("%v: %q came back as %q", err, v, got)
		}
	}
	return float64(bytes) / float64(without), numbers
}

// betweenWrites leaves CPU time for training.
const betweenWrites = 50 * time.Millisecond

// writeUntil keeps writing documents until the log contains a text n times.
func (g *autoGateway) writeUntil(t *testing.T, d *documents, text string, n int) {
	t.Helper()
	testenv.Eventually(t, fmt.Sprintf("%q is logged %d times", text, n), func() bool {
		if g.log.count(text) >= n {
			return true
		}
		g.set(t, "doc:", d, 100)
		time.Sleep(betweenWrites)
		return false
	})
}

func TestAutoDictionary(t *testing.T) {
	t.Parallel()
	if testenv.RaceDetector {
		t.Skip("too slow; internal/dictionary has tests of what goroutines share")
	}
	server := testenv.Redis(t)
	direct := connectTo(t, server.Addr)
	g := startAuto(t, server.Addr)
	docs := &documents{random: rand.New(rand.NewPCG(1, 2))}
	g.set(t, "doc:", docs, 1500)
	g.writeUntil(t, docs, "dictionary rolled out", 1)
	share, numbers := g.measure(t, direct, docs)
	t.Logf("stored %.3f of what zstd alone stores, %v", share, numbers)
	if share > 0.45 || len(numbers) != 1 {
		t.Errorf("stored %.3f of what zstd alone stores, with %v", share, numbers)
	}

	docs.world = 1
	g.writeUntil(t, docs, "dictionary rolled out", 2)
	again, others := g.measure(t, direct, docs)
	t.Logf("after a change of shape %.3f, %v", again, others)
	if again > 0.45 || again > share*1.1 {
		t.Errorf("after a change of shape %.3f, with %v; before %.3f", again, others, share)
	}
	for n := range numbers {
		if others[n] > 0 {
			t.Errorf("the old dictionary %08x is still used", n)
		}
	}

	// A reload keeps what was chosen.
	g.write(t, g.client.Options().Addr, server.Addr, "      - {name: more, key: \"more:*\", setting: lz4}\n")
	g.reload("configuration reloaded")
	if _, kept := g.measure(t, direct, docs); fmt.Sprint(kept) != fmt.Sprint(others) {
		t.Errorf("after a reload %v, before %v", kept, others)
	}

	// Another gateway adopts the announced dictionary without training.
	other := startAuto(t, server.Addr)
	other.logged("dictionary adopted")
	if _, adopted := other.measure(t, direct, docs); fmt.Sprint(adopted) != fmt.Sprint(others) {
		t.Errorf("another gateway: %v, want %v", adopted, others)
	}
}

// Gateways in front of one store end up with one dictionary, whichever gateway trained it, and read each other's
// values.
func TestThreeAutoGateways(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow; internal/dictionary has tests of what goroutines share")
	}
	server := testenv.Redis(t)
	direct := connectTo(t, server.Addr)
	var gateways []*autoGateway
	docs := &documents{random: rand.New(rand.NewPCG(3, 4))}
	for range 3 {
		g := startAuto(t, server.Addr)
		g.set(t, "doc:", docs, 600)
		gateways = append(gateways, g)
	}
	var all []string
	testenv.Eventually(t, "they agree", func() bool {
		time.Sleep(betweenWrites)
		all = all[:0]
		for i, g := range gateways {
			g.set(t, "doc:", docs, 100)
			_, numbers := g.measure(t, direct, docs)
			reader := gateways[(i+1)%len(gateways)].client
			if v, err := reader.Get(t.Context(), "doc:measured:7").Bytes(); err != nil || v[0] != '{' {
				t.Fatalf("%v: %q", err, v)
			}
			all = append(all, fmt.Sprint(numbers))
		}
		return all[0] == all[1] && all[1] == all[2] && !strings.HasPrefix(all[0], "map[0:") && all[0] != "map[]"
	})
}
