package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Many equal warnings are logged in a few lines with their count, and do not suppress other warnings.
func TestSparseLogInAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testenv.Log
		log := slog.New(SparseLog(slog.NewTextHandler(&out, nil)))
		cache, other := log.With("gateway", "cache"), log.With("gateway", "other")
		for i := range 6549 {
			cache.Warn("compressed value can't be decompressed", "class", "damaged", "client", fmt.Sprint(i))
		}
		cache.Warn("compressed value can't be decompressed", "class", "dictionary_missing", "client", "a")
		other.Warn("compressed value can't be decompressed", "class", "damaged", "client", "b")
		cache.Error("something else")
		if n := strings.Count(out.String(), "\n"); n != sparseBurst+3 {
			t.Errorf("%d lines at once, want %d:\n%s", n, sparseBurst+3, out.String())
		}
		time.Sleep(sparsePeriod + time.Second)
		synctest.Wait()
		if n := out.Count(fmt.Sprintf("client=6548 repeated=%d\n", 6549-sparseBurst)); n != 1 {
			t.Errorf("the last of a storm is logged %d times with the number of those before:\n%s", n, out.String())
		}
		time.Sleep(3 * sparsePeriod)
		synctest.Wait()
		if n := strings.Count(out.String(), "\n"); n != sparseBurst+4 {
			t.Errorf("%d lines in the end:\n%s", n, out.String())
		}
	})
}

// A lasting problem is logged once a period, with the count of the records left out.
func TestSparseLogGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testenv.Log
		log := slog.New(SparseLog(slog.NewTextHandler(&out, nil)))
		for range 600 {
			log.Warn("again", "err", errors.New("x"))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(2 * sparsePeriod)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		told := 0
		for _, line := range lines {
			n := 1
			if _, repeated, ok := strings.Cut(line, "repeated="); ok {
				if _, err := fmt.Sscan(repeated, &n); err != nil {
					t.Fatal(err)
				}
			}
			told += n
		}
		if told != 600 || len(lines) > sparseBurst+7 {
			t.Errorf("%d lines tell of %d warnings, want 600:\n%s", len(lines), told, out.String())
		}
	})
}

func TestSparseLogLeavesInformationAlone(t *testing.T) {
	var out testenv.Log
	log := slog.New(SparseLog(slog.NewTextHandler(&out, nil)))
	for range 100 {
		log.Info("said")
	}
	if n := out.Count("said"); n != 100 {
		t.Errorf("%d of 100 lines", n)
	}
}
