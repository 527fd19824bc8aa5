package page

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

const memoryKeys = 2000

// equalMemory writes the same keys to a Redis server directly and to one through the gateway, and compares
// the saving on the page with the memory that the two servers use.
//
// The page counts bytes of values. The servers' allocator rounds each value up to one of its size classes,
// four of which lie between two powers of two, so it takes at most a quarter more than was asked for.
// Together with the few bytes of Redis's own string header this is computed for each value. The memory that
// the servers report must agree with that within 1 %, and with the page within that quarter.
func equalMemory(t *testing.T, w *tab, world *world) {
	plain := testenv.Redis(t)
	direct := goredis.NewClient(&goredis.Options{Addr: plain.Addr, ReadTimeout: patience})
	sealed := goredis.NewClient(&goredis.Options{Addr: world.server.Addr, ReadTimeout: patience})
	defer direct.Close()
	defer sealed.Close()
	plainBefore, sealedBefore := used(t, direct), used(t, sealed)
	r := rand.New(rand.NewPCG(7, 7))
	for i := range memoryKeys {
		key, body := memoryKey(i), document(r)
		for _, c := range []*goredis.Client{direct, world.redis} {
			if err := c.Set(t.Context(), key, body, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	raw, plainRoom := room(t, direct)
	stored, sealedRoom := room(t, sealed)
	held := float64(used(t, direct) - plainBefore - (used(t, sealed) - sealedBefore))
	account := float64(usage(t, direct) - usage(t, sealed))

	saved := float64(raw - stored)
	w.becomes("what was saved", fmt.Sprintf(`document.querySelector("[data-gateway=test] [data-figure=saved_bytes]").dataset.value === "%.0f"`, saved))
	worked := float64(plainRoom - sealedRoom)
	t.Logf("the page says %.0f bytes were saved; in size classes %.0f; used_memory says %.0f, MEMORY USAGE %.0f", saved, worked, held, account)
	for what, is := range map[string]float64{"used_memory": held, "MEMORY USAGE": account} {
		if math.Abs(is-worked) > 0.01*worked+50e3 { // 50 kB for the connections' buffers
			t.Errorf("%s says %.0f bytes less are held, size classes %.0f", what, is, worked)
		}
		if is < saved-0.25*float64(stored) || is > saved+0.25*float64(raw) {
			t.Errorf("%s says %.0f bytes less are held, the page %.0f", what, is, saved)
		}
	}
}

func memoryKey(i int) string { return fmt.Sprintf("menu:of-memory-%04d", i) }

// used returns the bytes that a server reports as allocated.
func used(t *testing.T, c *goredis.Client) int64 {
	t.Helper()
	info, err := c.Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "\r\nused_memory:")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// room returns the bytes of all values in a server, and of the size classes that hold them.
func room(t *testing.T, c *goredis.Client) (values, classes int64) {
	t.Helper()
	lengths, err := c.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
		for i := range memoryKeys {
			p.StrLen(t.Context(), memoryKey(i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lengths {
		n := l.(*goredis.IntCmd).Val()
		values += n
		classes += class(stringBytes(n))
	}
	return values, classes
}

// stringBytes returns the bytes that Redis allocates for a separate string of n bytes: with a header and a
// zero byte.
func stringBytes(n int64) int64 {
	if n < 1<<8 {
		return n + 4
	}
	return n + 6
}

// class rounds up to jemalloc's size classes: multiples of 16 up to 128, then four per doubling.
func class(n int64) int64 {
	step := int64(16)
	if n > 128 {
		step = 1 << (bits.Len64(uint64(n-1)) - 3)
	}
	return (n + step - 1) / step * step
}

// usage returns the sum of MEMORY USAGE of all keys.
func usage(t *testing.T, c *goredis.Client) (sum int64) {
	t.Helper()
	all, err := c.Pipelined(t.Context(), func(p goredis.Pipeliner) error {
		for i := range memoryKeys {
			p.MemoryUsage(t.Context(), memoryKey(i))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range all {
		sum += u.(*goredis.IntCmd).Val()
	}
	return sum
}
