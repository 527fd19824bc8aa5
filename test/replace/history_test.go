package replace

import (
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/observe/history"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The counts of all processes are kept, each byte once, though two processes write to the directory at a
// time and one is killed.
func TestHistory(t *testing.T) {
	server := testenv.Redis(t)
	addr, dir := freeAddress(t), t.TempDir()
	s := start(t, fmt.Sprintf("  - name: port\n    protocol: redis\n    listen: %q\n    upstream: \"redis://%s\"\n    rules: [{name: all, key: '*', setting: zstd-3}]\n", addr, server.Addr)+
		"history: {path: "+dir+"}\n", nil)
	value, wrote := strings.Repeat("a value of some length ", 50), 0
	write := func() {
		t.Helper()
		c := redis.NewClient(&redis.Options{Addr: addr})
		defer c.Close()
		for i := range 100 {
			if err := c.Set(t.Context(), fmt.Sprint(i), value, 0).Err(); err != nil {
				t.Fatal(err)
			}
			wrote += len(value)
		}
	}
	for i := range 4 {
		write()
		s.replace()
		testenv.Eventually(t, "the process before has ended", func() bool { return s.count("msg=stopped") == i+1 })
	}
	_ = syscall.Kill(s.pid(), syscall.SIGKILL)
	testenv.Eventually(t, "it is gone", func() bool { return syscall.Kill(s.pid(), 0) != nil })
	s.run(nil)
	write()
	s.stop()
	if s.count("history:") > 0 {
		t.Error(s.text())
	}
	h := history.Open(history.Options{Path: dir})
	now := time.Now()
	a, err := h.Query(t.Context(), history.Question{From: now.Add(-time.Hour), To: now.Add(time.Hour), Want: func(s history.Series) bool { return s.Name == "raw_bytes" }})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Lines) != 1 || math.Abs(a.Lines[0].Sum()-float64(wrote)) > 0.5 {
		t.Errorf("%d bytes were written: %+v", wrote, a.Lines)
	}
}
