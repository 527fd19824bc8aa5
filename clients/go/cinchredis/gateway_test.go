package cinchredis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

const gatewayConfig = `
admin: {listen: off}
training: {min_samples: 400, interval: 50ms, poll: 50ms, drift: 15%%, cpu: 99%%}
gateways:
  - {name: g, protocol: redis, listen: "unix:%s", upstream: "redis://%s", rules: [{name: docs, key: "doc:*", setting: zstd-3, dictionary: auto}]}
`

// TestGateway lets a gateway and the library write and read on one server concurrently, while a dictionary is
// trained. With make full the dictionary is also replaced.
func TestGateway(t *testing.T) {
	s := startRedis(t)
	socket := startGateway(t, s)
	through := newClient(t, &redis.Options{Network: "unix", Addr: socket})
	answers(t, through)
	library := s.attached(t, Options{Refresh: 50 * time.Millisecond})

	orders := []*stream{{name: "doc:order:gateway", by: through, make: order}, {name: "doc:order:library", by: library, make: order}}
	first := s.writeUntil(t, orders, orders, func(number uint32) bool { return number != 0 })
	all := orders
	if os.Getenv("CINCH_FULL") == "1" {
		readings := []*stream{{name: "doc:reading:gateway", by: through, make: reading}, {name: "doc:reading:library", by: library, make: reading}}
		all = append(all, readings...)
		s.writeUntil(t, readings, all, func(number uint32) bool { return number != 0 && number != first })
	}

	for _, fresh := range []*redis.Client{newClient(t, &redis.Options{Network: "unix", Addr: socket}), s.attached(t, Options{})} {
		for _, w := range all {
			must(t, w.readAll(t.Context(), fresh))
		}
	}
}

// startGateway starts `cinch serve` in front of a server and returns the path of its socket.
func startGateway(t *testing.T, s *server) string {
	t.Helper()
	program := testenv.Cinch(t)
	dir := t.TempDir()
	socket, config := filepath.Join(dir, "socket"), filepath.Join(dir, "cinch.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, gatewayConfig, socket, s.addr), 0o600))
	start(t, program, "serve", "--config", config)
	return socket
}

// A stream is the data that one client writes. The values are computed from their numbers.
type stream struct {
	name    string // the keys begin with it
	by      *redis.Client
	make    func(r *rand.Rand) string
	written atomic.Int64
}

const mostWritten = 200_000 // limit of values for a stream, if no dictionary is trained

func (w *stream) key(i int64) string { return fmt.Sprintf("%s:%d", w.name, i) }

func (w *stream) value(i int64) string {
	return w.make(rand.New(rand.NewPCG(uint64(i), uint64(len(w.name)))))
}

func (w *stream) write(ended context.Context) error {
	for i := int64(0); i < mostWritten && ended.Err() == nil; i++ {
		if err := w.by.Set(context.Background(), w.key(i), w.value(i), 0).Err(); err != nil {
			return fmt.Errorf("SET %s: %w", w.key(i), err)
		}
		w.written.Store(i + 1)
	}
	return nil
}

// read reads values that have been written, by their numbers.
func (w *stream) read(ctx context.Context, rdb *redis.Client, numbers []int64) error {
	keys := make([]string, len(numbers))
	for at, i := range numbers {
		keys[at] = w.key(i)
	}
	got, err := rdb.MGet(ctx, keys...).Result()
	if err != nil {
		return fmt.Errorf("MGET %s …: %w", keys[0], err)
	}
	for at, i := range numbers {
		if got[at] != w.value(i) {
			return fmt.Errorf("%s is %q", keys[at], got[at])
		}
	}
	return nil
}

func (w *stream) readAll(ctx context.Context, rdb *redis.Client) error {
	for next, end := int64(0), w.written.Load(); next < end; {
		var numbers []int64
		for ; next < end && len(numbers) < 1000; next++ {
			numbers = append(numbers, next)
		}
		if err := w.read(ctx, rdb, numbers); err != nil {
			return err
		}
	}
	return nil
}

// readSome reads values of random streams until ended.
func readSome(ended context.Context, rdb *redis.Client, all []*stream) error {
	for ended.Err() == nil {
		w := all[rand.IntN(len(all))]
		n := w.written.Load()
		if n == 0 {
			continue
		}
		numbers := make([]int64, 20)
		for i := range numbers {
			numbers[i] = rand.Int64N(n)
		}
		if err := w.read(context.Background(), rdb, numbers); err != nil {
			return err
		}
	}
	return nil
}

// writeUntil makes all writers write, and their clients read all streams, until each writer has named a
// dictionary for which willDo reports true. It returns the first writer's.
func (s *server) writeUntil(t *testing.T, writers, all []*stream, willDo func(uint32) bool) uint32 {
	t.Helper()
	ended, end := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	run := func(do func() error) {
		wg.Go(func() {
			if err := do(); err != nil {
				t.Error(err)
				end()
			}
		})
	}
	for _, w := range writers {
		run(func() error { return w.write(ended) })
		run(func() error { return readSome(ended, w.by, all) })
	}
	eventually(t, "both write with another dictionary", func() bool {
		for _, w := range writers {
			if !willDo(s.dictionaryOf(t, w)) {
				return ended.Err() != nil
			}
		}
		return true
	})
	end()
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%s: %d values, %s: %d", writers[0].name, writers[0].written.Load(), writers[1].name, writers[1].written.Load())
	return s.dictionaryOf(t, writers[0])
}

// dictionaryOf returns the dictionary that a stream's last value names, 0 if none.
func (s *server) dictionaryOf(t *testing.T, w *stream) uint32 {
	t.Helper()
	n := w.written.Load()
	if n == 0 {
		return 0
	}
	stored, err := s.plain.Get(t.Context(), w.key(n-1)).Bytes()
	must(t, err)
	if !envelope.IsSealed(stored) {
		return 0
	}
	h, err := envelope.ParseHeader(stored)
	must(t, err)
	return h.Dict
}

func order(r *rand.Rand) string {
	return fmt.Sprintf(`{"order_id":"%08x","customer":{"id":%d,"tier":"%s"},"status":"%s","total":%d.%02d,"created_at":"2026-%02d-%02dT10:00:00Z"}`,
		r.Uint32(), r.IntN(1e6), pick(r, "gold silver"), pick(r, "shipped pending cancelled"), r.IntN(500), r.IntN(100), 1+r.IntN(12), 1+r.IntN(28))
}

func reading(r *rand.Rand) string {
	return fmt.Sprintf(`{"sensorSerial":"%08x","celsius":%d,"humidityPercent":%d,"battery":"discharging","building":"headquarters","measuredAtUnix":%d}`,
		r.Uint32(), r.IntN(40), r.IntN(100), 1790000000+r.IntN(1e7))
}

func pick(r *rand.Rand, words string) string {
	all := strings.Fields(words)
	return all[r.IntN(len(all))]
}
