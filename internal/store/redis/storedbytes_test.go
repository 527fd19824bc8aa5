package redis

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/test/testenv"
)

// StoredBytes returns approximately the size of the values.
func TestStoredBytes(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	before, servers, err := d.StoredBytes(t.Context())
	if err != nil || servers != 1 {
		t.Fatalf("%d, %v", servers, err)
	}
	const values, each = 2000, 1000
	for i := range values {
		if err := client.Set(t.Context(), fmt.Sprint(i), strings.Repeat("x", each), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if after, _, err := d.StoredBytes(t.Context()); err != nil || after-before < values*each || after-before > 2*values*each {
		t.Errorf("%d bytes of values are %d in %d, %v", values*each, after-before, after, err)
	}
}

// DictCost returns what a dictionary and its record take of the server's memory, or somewhat more.
func TestDictCost(t *testing.T) {
	server := testenv.Redis(t)
	d, client := gatewayOn(t, server.Addr, &testenv.Log{})
	for _, size := range []int{2 << 10, 8 << 10, 32 << 10, 112 << 10} {
		var took []float64 // the median is taken: the server's own tables grow now and then
		var cost float64
		for i := range 5 {
			content := fmt.Append(nil, size, i)
			for len(content) < size {
				content = fmt.Appendf(content, `{"id":%d,"sum":"%x"}`, len(content), sha256.Sum256(content)) // half of it compresses
			}
			x, err := codec.NewDict(content)
			must(t, err)
			before := usedMemory(t, client)
			mustPublish(t, d, x)
			if _, err := d.ReplaceRecord(t.Context(), fmt.Sprint("r", size, "n", i), 0, strings.Repeat("x", 600)); err != nil {
				t.Fatal(err)
			}
			took, cost = append(took, usedMemory(t, client)-before), DictCost(x)
		}
		slices.Sort(took)
		t.Logf("%d bytes take %.0f, DictCost says %.0f", size, took, cost)
		if median := took[2]; cost < median || cost > 1.5*median+8<<10 {
			t.Errorf("%d bytes take %.0f, DictCost says %.0f", size, took, cost)
		}
	}
}

// usedMemory returns the server's used_memory when one new connection is all that there is, so that no buffer counts.
func usedMemory(t *testing.T, client *goredis.Client) float64 {
	t.Helper()
	c := goredis.NewClient(client.Options())
	defer c.Close()
	must(t, c.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	testenv.Eventually(t, "the others are gone", func() bool {
		return strings.Contains(c.Info(t.Context(), "clients").Val(), "connected_clients:1\r\n")
	})
	must(t, c.ConfigResetStat(t.Context()).Err()) // the first use of a command takes 50 KB for its latencies
	text, err := c.Info(t.Context(), "memory").Result()
	must(t, err)
	_, rest, _ := strings.Cut(text, "used_memory:")
	digits, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseFloat(digits, 64)
	must(t, err)
	return n
}
