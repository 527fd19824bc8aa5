package codec_test

import (
	"bytes"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
)

// settings returns all algorithms at all levels, except those of zstd, which has a suite of its own.
func settings() []codec.Setting {
	all := []codec.Setting{{Codec: codec.Raw}, {Codec: codec.Zstd}, {Codec: codec.Zstd, Level: 1}}
	for id := codec.Snappy; id.Known(); id++ {
		if id == codec.Zstd {
			continue
		}
		for level := range id.MaxLevel() + 1 {
			all = append(all, codec.Setting{Codec: id, Level: level})
		}
	}
	return all
}

func TestRoundTrip(t *testing.T) {
	e := codec.New(codec.Options{})
	most := codectest.Amount(1024, 4097, 1<<17) // limit for values of all kinds at all levels
	for _, s := range settings() {
		t.Run(s.String(), func(t *testing.T) {
			for kind, values := range codectest.Values() {
				for _, value := range values {
					n := len(value)
					if n > most && s.Level > 1 && (kind != "mixed" || n > codectest.Amount(most, 1<<17, 1<<17)) || n > 1<<17 && s.Level > codectest.Amount(0, 1, 99) {
						continue // would take minutes and show nothing new
					}
					payload := mustCompress(t, e, value, s)
					if limit := codec.MaxEncodedLen(s.Codec, n); len(payload) > limit {
						t.Errorf("%s, %d bytes: became %d, more than the %d of MaxEncodedLen, which has a case for each algorithm", kind, n, len(payload), limit)
					}
					opened, err := e.Decompress([]byte("before"), payload, s.Codec, n, nil)
					if err != nil || !bytes.HasPrefix(opened, []byte("before")) || !bytes.Equal(opened[6:], value) {
						t.Fatalf("%s, %d bytes: %v", kind, n, err)
					}
				}
			}
		})
	}
}

func mustCompress(t testing.TB, e *codec.Engine, value []byte, s codec.Setting) []byte {
	t.Helper()
	payload, err := e.Compress([]byte("before"), value, s, nil)
	if err != nil || !bytes.HasPrefix(payload, []byte("before")) {
		t.Fatalf("%s, %d bytes: %v", s, len(value), err)
	}
	return payload[6:]
}

// TestLevelsDiffer checks the use of levels: the highest makes text smaller than the lowest, if there are
// several.
func TestLevelsDiffer(t *testing.T) {
	e := codec.New(codec.Options{})
	value := codectest.JSON(60_000, 1)
	for id := codec.Snappy; id.Known(); id++ {
		if id.MaxLevel() < 2 {
			continue
		}
		low := mustCompress(t, e, value, codec.Setting{Codec: id, Level: 1})
		high := mustCompress(t, e, value, codec.Setting{Codec: id, Level: id.MaxLevel()})
		if len(high) >= len(low) {
			t.Errorf("%s: %d bytes at the lowest level, %d at the highest", id, len(low), len(high))
		}
	}
}

func TestDecompressWrongLength(t *testing.T) {
	e := codec.New(codec.Options{})
	for _, s := range settings() {
		for _, n := range []int{0, 1, 16, 100, 5000, 70_000} {
			payload := mustCompress(t, e, codectest.JSON(n, 1), s)
			for _, wrong := range []int{-1, 0, 1, n - 1, n + 1, 2*n + 1, n + 1<<20} {
				if wrong == n {
					continue
				}
				out, err := e.Decompress([]byte("kept"), payload, s.Codec, wrong, nil)
				if !errors.Is(err, codec.ErrCorrupt) || string(out) != "kept" {
					t.Errorf("%s: %d bytes opened as %d: %d, %v", s, n, wrong, len(out), err)
				}
			}
		}
	}
}

func TestDecompressDamaged(t *testing.T) {
	e := codec.New(codec.Options{})
	value := codectest.JSON(codectest.Amount(500, 700, 3000), 1)
	for _, s := range settings() {
		payload := mustCompress(t, e, value, s)
		for n := range payload {
			if out, err := e.Decompress(nil, payload[:n], s.Codec, len(value), nil); !errors.Is(err, codec.ErrCorrupt) || len(out) > 0 {
				t.Errorf("%s: cut to %d of %d bytes: %v", s, n, len(payload), err)
			}
		}
		for _, tail := range [][]byte{{0}, {0x10, 0}, payload} {
			if _, err := e.Decompress(nil, append(bytes.Clone(payload), tail...), s.Codec, len(value), nil); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%s: with %d bytes behind it: %v", s, len(tail), err)
			}
		}
		for i := range len(payload) * 8 {
			flipped := bytes.Clone(payload)
			flipped[i/8] ^= 1 << (i % 8)
			out, err := e.Decompress(nil, flipped, s.Codec, len(value), nil)
			if err == nil && len(out) != len(value) || err != nil && !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%s: bit %d flipped: %d bytes, %v", s, i, len(out), err)
			}
		}
	}
}

// TestBombs decompresses 48 MiB of zeros with a smaller claimed length: allocations stay below rawLen and a
// constant.
func TestBombs(t *testing.T) {
	e := codec.New(codec.Options{})
	for id := codec.Snappy; id.Known(); id++ {
		n := 48 << 20
		if id == codec.MinLZ {
			n = 8 << 20
		}
		bomb := mustCompress(t, e, make([]byte, n), codec.Setting{Codec: id})
		for _, rawLen := range []int{0, 1, 100_000, 4 << 20} {
			used := allocated(func() {
				if _, err := e.Decompress(nil, bomb, id, rawLen, nil); !errors.Is(err, codec.ErrCorrupt) {
					t.Errorf("%s: %d bytes opened as %d: %v", id, n, rawLen, err)
				}
			})
			if most := rawLen + 512<<10; used > most {
				t.Errorf("%s: a bomb opened as %d allocated %d bytes", id, rawLen, used)
			}
		}
	}
}

// TestShortPayloadsAllocateLittle decompresses a few bytes that claim 1 GiB.
func TestShortPayloadsAllocateLittle(t *testing.T) {
	e := codec.New(codec.Options{})
	for id := codec.Raw; id.Known(); id++ {
		payload := mustCompress(t, e, codectest.Text(300, 1), codec.Setting{Codec: id})
		used := allocated(func() {
			if _, err := e.Decompress(nil, payload, id, 1<<30, nil); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("%s: %v", id, err)
			}
		})
		if used > 1<<20 {
			t.Errorf("%s: %d bytes that claim to be 1 GiB allocated %d", id, len(payload), used)
		}
	}
}

func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

func TestErrors(t *testing.T) {
	e := codec.New(codec.Options{})
	d := codectest.Dicts(t)["raw content"]
	compress := func(s codec.Setting, d *codec.Dict) error {
		out, err := e.Compress([]byte("kept"), []byte("value"), s, d)
		if string(out) != "kept" {
			t.Errorf("%s: dst became %q", s, out)
		}
		return err
	}
	decompress := func(id codec.ID, d *codec.Dict) error {
		_, err := e.Decompress(nil, []byte("value"), id, 5, d)
		return err
	}
	for name, c := range map[string]struct{ got, want error }{
		"unknown codec":            {compress(codec.Setting{Codec: 9}, nil), codec.ErrUnknownCodec},
		"reading an unknown codec": {decompress(9, nil), codec.ErrUnknownCodec},
		"level":                    {compress(codec.Setting{Codec: codec.LZ4, Level: 10}, nil), codec.ErrSetting},
		"level of raw":             {compress(codec.Setting{Level: 1}, nil), codec.ErrSetting},
		"dictionary missing":       {compress(codec.Setting{Codec: codec.Zstd, Dict: d.Number()}, nil), codec.ErrDictionary},
		"dictionary unasked for":   {compress(codec.Setting{Codec: codec.Zstd}, d), codec.ErrDictionary},
		"another dictionary":       {compress(codec.Setting{Codec: codec.Zstd, Dict: d.Number() + 1}, d), codec.ErrDictionary},
		"lz4 with a dictionary":    {compress(codec.Setting{Codec: codec.LZ4, Dict: d.Number()}, d), codec.ErrSetting},
		"raw with a dictionary":    {decompress(codec.Raw, d), codec.ErrDictionary},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	_, err := e.Compress(nil, make([]byte, 8<<20+1), codec.Setting{Codec: codec.MinLZ}, nil)
	if !errors.Is(err, codec.ErrTooLarge) {
		t.Errorf("minlz above 8 MiB: %v", err)
	}
}

// TestAllocations checks that a call with sufficient capacity in dst allocates nothing once states are warm.
func TestAllocations(t *testing.T) {
	e := codec.New(codec.Options{})
	d := codectest.Dicts(t)["trained by go"]
	cases := []struct {
		s codec.Setting
		d *codec.Dict
	}{{codec.Setting{Codec: codec.Zstd, Dict: d.Number()}, d}}
	for id := codec.Raw; id.Known(); id++ {
		cases = append(cases, struct {
			s codec.Setting
			d *codec.Dict
		}{codec.Setting{Codec: id}, nil})
	}
	for _, c := range cases {
		for _, n := range []int{350, 10_000, 300_000} {
			value := codectest.JSON(n, 1)
			dst := make([]byte, 0, codec.MaxEncodedLen(c.s.Codec, n)+codec.DecompressSlack)
			payload, err := e.Compress(nil, value, c.s, c.d)
			if err != nil {
				t.Fatal(err)
			}
			if got := testing.AllocsPerRun(20, func() { _, _ = e.Compress(dst, value, c.s, c.d) }); got >= 1 {
				t.Errorf("%s: compressing %d bytes makes %v allocations", c.s, n, got)
			}
			if got := testing.AllocsPerRun(20, func() { _, _ = e.Decompress(dst, payload, c.s.Codec, n, c.d) }); got >= 1 {
				t.Errorf("%s: decompressing %d bytes makes %v allocations", c.s, n, got)
			}
		}
	}
}

// counter is a zstd that records its number of concurrent calls. Its first calls wait until the expected
// number is reached.
type counter struct {
	codec.ZstdCoder
	now, most atomic.Int32
	want      int32
	full      chan struct{} // closed when the expected number is reached
	once      sync.Once
}

func (c *counter) enter() {
	now := c.now.Add(1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	if now >= c.want {
		c.once.Do(func() { close(c.full) })
	}
	<-c.full
	runtime.Gosched()
}

func (c *counter) Compress(dst, src []byte, level int, d *codec.Dict) ([]byte, error) {
	c.enter()
	defer c.now.Add(-1)
	return c.ZstdCoder.Compress(dst, src, level, d)
}

func (c *counter) Decompress(dst, src []byte, rawLen int, d *codec.Dict) ([]byte, error) {
	c.enter()
	defer c.now.Add(-1)
	return c.ZstdCoder.Decompress(dst, src, rawLen, d)
}

func TestMaxInFlight(t *testing.T) {
	const inFlight = 3
	c := &counter{ZstdCoder: codec.NewGoZstd(), want: inFlight, full: make(chan struct{})}
	e := codec.New(codec.Options{Zstd: c, MaxInFlight: inFlight})
	dicts := codectest.Dicts(t)
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			for i := range 20 {
				for _, d := range dicts {
					for id := codec.Snappy; id.Known(); id++ {
						s := codec.Setting{Codec: id}
						if id == codec.Zstd {
							s.Dict = d.Number()
						}
						engineRoundTrip(t, e, codectest.JSON(i*50, uint64(worker)), s, dicts)
					}
				}
			}
		})
	}
	wg.Wait()
	if most := c.most.Load(); most != inFlight {
		t.Errorf("%d calls at one time, want %d", most, inFlight)
	}
	after := runtime.NumGoroutine()
	for range 1000 { // a finished call may not have returned yet
		if after <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
		after = runtime.NumGoroutine()
	}
	t.Errorf("%d goroutines became %d", before, after)
}

// watched calls seen while compressing.
type watched struct {
	codec.ZstdCoder
	seen func()
}

func (w watched) Compress(dst, _ []byte, _ int, _ *codec.Dict) ([]byte, error) {
	w.seen()
	return dst, nil
}

func TestInFlight(t *testing.T) {
	var e *codec.Engine
	during := -1
	e = codec.New(codec.Options{MaxInFlight: 2, Zstd: watched{seen: func() { during, _ = e.InFlight() }}})
	if _, err := e.Compress(nil, []byte("value"), codec.Setting{Codec: codec.Zstd}, nil); err != nil {
		t.Fatal(err)
	}
	if after, most := e.InFlight(); during != 1 || after != 0 || most != 2 {
		t.Errorf("%d during a call, %d after it, at most %d", during, after, most)
	}
}

func engineRoundTrip(t *testing.T, e *codec.Engine, value []byte, s codec.Setting, dicts map[string]*codec.Dict) {
	var d *codec.Dict
	for _, candidate := range dicts {
		if candidate.Number() == s.Dict {
			d = candidate
		}
	}
	payload, err := e.Compress(nil, value, s, d)
	if err != nil {
		t.Error(err)
		return
	}
	out, err := e.Decompress(nil, payload, s.Codec, len(value), d)
	if err != nil || !bytes.Equal(out, value) {
		t.Errorf("%s: %d bytes came back wrong: %v", s, len(value), err)
	}
}

// bug is a zstd implementation that panics.
type bug struct{ codec.ZstdCoder }

func (bug) Compress([]byte, []byte, int, *codec.Dict) ([]byte, error)   { panic("bug") }
func (bug) Decompress([]byte, []byte, int, *codec.Dict) ([]byte, error) { panic("bug") }

func TestPanicIsAnError(t *testing.T) {
	e := codec.New(codec.Options{Zstd: bug{}, MaxInFlight: 1})
	for range 3 { // a lost turn would make the second one hang
		if out, err := e.Compress([]byte("kept"), []byte("value"), codec.Setting{Codec: codec.Zstd}, nil); err == nil || string(out) != "kept" {
			t.Errorf("compress: %q, %v", out, err)
		}
		if out, err := e.Decompress([]byte("kept"), []byte("value"), codec.Zstd, 5, nil); !errors.Is(err, codec.ErrCorrupt) || string(out) != "kept" {
			t.Errorf("decompress: %q, %v", out, err)
		}
	}
}

// TestIdleMemory fills the engine with states of all kinds and measures what remains.
func TestIdleMemory(t *testing.T) {
	e := codec.New(codec.Options{MaxInFlight: 4})
	value := codectest.JSON(1<<20, 1)
	before := heap()
	for i := range codectest.Amount(10, 10, 30) {
		d := codectest.NewDict(t, codectest.JSON(20_000, uint64(i)))
		for _, level := range []int{1, 3, 6} {
			payload, err := e.Compress(nil, value, codec.Setting{Codec: codec.Zstd, Level: level, Dict: d.Number()}, d)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.Decompress(nil, payload, codec.Zstd, len(value), d); err != nil {
				t.Fatal(err)
			}
		}
	}
	stays := heap() - before
	if stays > 120<<20 {
		t.Errorf("%d MiB stay alive", stays>>20)
	}
	t.Logf("%d MiB stay alive", stays>>20)
	runtime.KeepAlive(e)
}

// heap returns the live bytes of the heap.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestForgetsBuffers checks that an idle decoder does not keep a caller's buffer alive.
func TestForgetsBuffers(t *testing.T) {
	e := codec.New(codec.Options{})
	value := codectest.JSON(4<<20, 1)
	for id := codec.Snappy; id.Known(); id++ {
		payload := mustCompress(t, e, value, codec.Setting{Codec: id})
		collected := make(chan struct{})
		open := func() {
			buf := make([]byte, len(value)+codec.DecompressSlack)
			runtime.AddCleanup(&buf[0], func(struct{}) { close(collected) }, struct{}{})
			if _, err := e.Decompress(buf[:0], payload, id, len(value), nil); err != nil {
				t.Error(err)
			}
		}
		open()
		runtime.GC()
		select {
		case <-collected:
		case <-time.After(time.Minute):
			t.Errorf("%s: the buffer stays alive", id)
		}
	}
	runtime.KeepAlive(e)
}
