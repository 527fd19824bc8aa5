package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// realRedis starts a Redis for the test and returns a client with one connection.
func realRedis(t *testing.T) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: testenv.Redis(t).Addr, PoolSize: 1, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// valueLengths returns every length up to 2 KiB and those around every larger class. The server keeps the two
// bytes of CRLF that followed an argument of 32 KiB or more, so there a boundary may move by two.
func valueLengths() []int {
	var lengths []int
	for n := 1; n < 2048; n++ {
		lengths = append(lengths, n)
	}
	for power := 2048; power <= 4<<20; power *= 2 {
		for step := 0; step < 4; step++ {
			class := power + power/4*step
			for _, d := range []int{-64, -16, -12, -11, -8, -7, -6, -5, 0, 1, 16} {
				lengths = append(lengths, class+d)
			}
		}
	}
	return lengths
}

func TestStringSizesAgainstRedis(t *testing.T) {
	c, ctx := realRedis(t), t.Context()
	overhead := int64(-1)
	for _, n := range valueLengths() {
		value := strings.Repeat("x", n)
		if err := c.Set(ctx, "k", value, 0).Err(); err != nil {
			t.Fatal(err)
		}
		got, err := c.MemoryUsage(ctx, "k").Result()
		if err != nil {
			t.Fatal(err)
		}
		if overhead < 0 {
			overhead = got - int64(stringSize(n)) // of the key itself
		}
		want := int64(stringSize(n)) + overhead
		if got != want && !(n >= 32<<10 && got == int64(stringSize(n+2))+overhead) {
			t.Errorf("%d bytes: Redis takes %d, computed %d", n, got, want)
		}
	}
}

func TestHashSizesAgainstRedis(t *testing.T) {
	c, ctx := realRedis(t), t.Context()
	if err := c.HSet(ctx, "h", "big", strings.Repeat("x", 65)).Err(); err != nil { // a hashtable
		t.Fatal(err)
	}
	overhead := int64(-1)
	for _, n := range valueLengths() {
		if err := c.HSet(ctx, "h", "f", strings.Repeat("x", n)).Err(); err != nil {
			t.Fatal(err)
		}
		got, err := c.MemoryUsage(ctx, "h", 0).Result()
		if err != nil {
			t.Fatal(err)
		}
		if overhead < 0 {
			overhead = got - int64(sdsSize(n))
		}
		if want := int64(sdsSize(n)) + overhead; got != want {
			t.Errorf("%d bytes: Redis takes %d, computed %d", n, got, want)
		}
	}
}

// TestListpackSizesAgainstRedis reads an entry's size from a dump, which contains the listpack preceded by
// its total length.
func TestListpackSizesAgainstRedis(t *testing.T) {
	c, ctx := realRedis(t), t.Context()
	c.ConfigSet(ctx, "hash-max-listpack-value", "1000000")
	c.ConfigSet(ctx, "rdbcompression", "no")
	length := func(n int) int {
		t.Helper()
		c.Del(ctx, "h")
		if err := c.HSet(ctx, "h", "f", strings.Repeat("x", n)).Err(); err != nil {
			t.Fatal(err)
		}
		dump, err := c.Dump(ctx, "h").Result()
		if err != nil {
			t.Fatal(err)
		}
		// layout: type (1 byte), length (1, 2 or 5 bytes), listpack, which begins with its size in bytes (4, little
		// endian)
		switch dump = dump[1:]; dump[0] >> 6 {
		case 0:
			dump = dump[1:]
		case 1:
			dump = dump[2:]
		default:
			dump = dump[5:]
		}
		return int(dump[0]) | int(dump[1])<<8 | int(dump[2])<<16 | int(dump[3])<<24
	}
	base := length(1) - listpackSize(1)
	for _, n := range []int{2, 62, 63, 64, 65, 124, 125, 126, 4095, 4096, 4097, 16376, 16377, 16378, 16379, 20000, 300000} {
		if got, want := length(n)-base, listpackSize(n); got != want {
			t.Errorf("%d bytes: Redis takes %d, computed %d", n, got, want)
		}
	}
}

// TestGlobAgainstRedis runs KEYS with random patterns over random keys.
func TestGlobAgainstRedis(t *testing.T) {
	c, ctx := realRedis(t), t.Context()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	word := func(alphabet string, most int) string {
		b := make([]byte, 1+rnd.IntN(most))
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(b)
	}
	var keys []string
	for range 300 {
		keys = append(keys, word("abc-]^\\*\xff", 6))
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for _, k := range keys {
		c.Set(ctx, k, "", 0)
	}
	for range 3000 {
		glob := word("aabc-[]^\\*?", 8)
		got, err := c.Keys(ctx, glob).Result()
		if err != nil {
			t.Fatal(err)
		}
		p := Compile(glob)
		var want []string
		for _, k := range keys {
			if p.Match([]byte(k)) {
				want = append(want, k)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q: Redis finds %q, we %q", glob, got, want)
		}
	}
}

// TestNumbersAgainstRedis compares NeverSeal with the server's own choice of the int encoding.
func TestNumbersAgainstRedis(t *testing.T) {
	c, ctx := realRedis(t), t.Context()
	values := []string{"-", "-0", "+1", "01", " 1", "1 ", "1.0", "18446744073709551615", "99999999999999999999"}
	for _, n := range []int64{0, 1, -1, 9, 10, 1<<31 - 1, 1 << 31, -1 << 31, 1<<63 - 1, -1 << 63} {
		values = append(values, strconv.FormatInt(n, 10), fmt.Sprintf("%d0", n), fmt.Sprintf("0%d", n))
	}
	for _, v := range values {
		if err := c.Set(ctx, "k", v, 0).Err(); err != nil {
			t.Fatal(err)
		}
		encoding, err := c.ObjectEncoding(ctx, "k").Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := NeverSeal([]byte(v)); got != (encoding == "int") {
			t.Errorf("NeverSeal(%q) = %v, Redis: %s", v, got, encoding)
		}
	}
}
