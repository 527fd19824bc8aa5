package cinchredis

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
)

// A vector is an entry of the index of frozen envelopes.
type vector struct {
	Name, Stored, Value, Dictionary, Error string
	MaxRaw                                 int `json:"max_raw"`
}

const vectorDir = "../../../envelope/testdata/vectors"

func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectorDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func vectors(t testing.TB) (all []vector) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "index.json")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// errorsOf maps classes of errors in the index, except damage, to errors.
var errorsOf = map[string]error{"unknown codec": ErrUnknownCodec, "dictionary missing": ErrDictionaryMissing, "too large": ErrTooLarge}

// Every frozen envelope is read through the hook as its value or its error, by every kind of reply.
func TestVectors(t *testing.T) {
	s := startRedis(t)
	type known struct {
		dictionary string
		maxRaw     int
	}
	clients := map[known]*redis.Client{}
	loaded := ""
	for _, v := range sortedByDictionary(vectors(t)) {
		if v.Dictionary != loaded {
			must(t, s.plain.FunctionFlush(t.Context()).Err())
			s.hold(t, read(t, v.Dictionary))
			loaded, clients = v.Dictionary, map[known]*redis.Client{}
		}
		c := clients[known{v.Dictionary, v.MaxRaw}]
		if c == nil {
			c = s.attached(t, Options{MaxValue: v.MaxRaw})
			clients[known{v.Dictionary, v.MaxRaw}] = c
		}
		t.Run(v.Name, func(t *testing.T) { tryVector(t, s, c, v) })
	}
}

// sortedByDictionary puts vectors without a dictionary first, while the server has none.
func sortedByDictionary(all []vector) (sorted []vector) {
	byDictionary, order := map[string][]vector{}, []string{""}
	for _, v := range all {
		if byDictionary[v.Dictionary] == nil && v.Dictionary != "" {
			order = append(order, v.Dictionary)
		}
		byDictionary[v.Dictionary] = append(byDictionary[v.Dictionary], v)
	}
	for _, name := range order {
		sorted = append(sorted, byDictionary[name]...)
	}
	return sorted
}

func tryVector(t *testing.T, s *server, c *redis.Client, v vector) {
	ctx, stored := t.Context(), read(t, v.Stored)
	must(t, s.plain.Set(ctx, "v", stored, 0).Err())
	must(t, s.plain.HSet(ctx, "h", "v", stored).Err())
	get, mget, all, do := c.Get(ctx, "v"), c.MGet(ctx, "v"), c.HGetAll(ctx, "h"), c.Do(ctx, "get", "v")
	p := c.Pipeline()
	piped, after := p.HVals(ctx, "h"), p.Echo(ctx, "after")
	_, _ = p.Exec(ctx)
	if after.Val() != "after" || after.Err() != nil {
		t.Error("the pipeline's next reply:", after)
	}
	if v.Error == "" {
		want := read(t, v.Value)
		for name, got := range map[string]any{"GET": get.Val(), "MGET": mget.Val()[0], "HGETALL": all.Val()["v"], "Do": do.Val(), "HVALS": piped.Val()[0]} {
			if got != want {
				t.Errorf("%s: another value", name)
			}
		}
		return
	}
	want := errorsOf[v.Error]
	if want == nil {
		want = ErrDamaged
	}
	for _, cmd := range []redis.Cmder{get, mget, all, do, piped} {
		if !errors.Is(cmd.Err(), want) {
			t.Errorf("%s: %v, want %v", cmd.Name(), cmd.Err(), want)
		}
	}
	if get.Val() != "" || mget.Val() != nil || all.Val() != nil || do.Val() != nil || piped.Val() != nil {
		t.Error("damage is passed off as data")
	}
}

// Every prefix of an envelope is read as an error, never as data. The connection stays usable.
func TestTruncated(t *testing.T) {
	s, _ := withPolicy(t)
	c, ctx := s.attached(t, Options{}), t.Context()
	must(t, c.Set(ctx, "menu:1", menu, 0).Err())
	stored := s.plain.Get(ctx, "menu:1").Val()
	for n := len(envelope.Magic); n < len(stored); n++ {
		must(t, s.plain.Set(ctx, "menu:1", stored[:n], 0).Err())
		if got, err := c.Get(ctx, "menu:1").Result(); !errors.Is(err, ErrDamaged) || got != "" {
			t.Fatalf("%d of %d bytes: %q, %v", n, len(stored), got, err)
		}
	}
	must(t, c.Ping(ctx).Err())
}

// An envelope that declares more than the limit is refused without an allocation for it. So is one whose
// payload decompresses to more than it declares.
func TestBombs(t *testing.T) {
	s := startRedis(t)
	c, ctx := s.attached(t, Options{MaxValue: 1 << 20}), t.Context()
	sealer := envelope.NewSealer(envelope.SealerOptions{})
	h := envelope.Header{Version: envelope.Version, Codec: 5, RawLen: 1 << 31}
	bomb := sealer.Seal(nil, make([]byte, 16<<20), zstd3, nil)
	good, err := envelope.ParseHeader(bomb)
	must(t, err)
	liar := good
	liar.RawLen = 1000
	for name, value := range map[string]string{
		"declares 2 GiB":  string(h.Append(nil)) + "payload",
		"declares 16 MiB": string(bomb),
		"declares less":   string(liar.Append(nil)) + string(bomb[good.Len:]),
	} {
		must(t, s.plain.Set(ctx, "bomb", value, 0).Err())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 20 {
			if err := c.Get(ctx, "bomb").Err(); !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %v", name, err)
			}
		}
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 20<<20 { // the decoder's window
			t.Errorf("%s: %d bytes were allocated", name, grown)
		}
	}
}

// Looking up unknown dictionaries costs the server few requests.
func TestUnknownDictionaries(t *testing.T) {
	s := startRedis(t)
	c, ctx := s.attached(t, Options{}), t.Context()
	for i := range 20 {
		h := envelope.Header{Version: envelope.Version, Codec: 5, RawLen: 10, HasDict: true, Dict: 0xdead0000}
		must(t, s.plain.Set(ctx, fmt.Sprint(i), string(h.Append(nil))+"payload", 0).Err())
		if err := c.Get(ctx, fmt.Sprint(i)).Err(); !errors.Is(err, ErrDictionaryMissing) {
			t.Error(err)
		}
	}
	if n := s.plain.Info(ctx, "commandstats").Val(); countOf(n, "cmdstat_function|list") > 4 {
		t.Error("the server was asked again and again:", n)
	}
}
