package menus

import (
	"math"
	"testing"

	"github.com/golang/snappy"

	"github.com/cinch-layer/cinch/codec"
)

// The published averages are over menus, not over bytes. The test uses Go's codecs: C's LZ4 leaves 1.3
// percentage points more, C's Snappy the same.
func TestMenusAreLikeThePublishedOnes(t *testing.T) {
	e := codec.New(codec.Options{})
	var lz4, snap, size float64
	least, most := math.MaxInt, 0
	n := 400.0
	for i := range int(n) {
		m := Menu(i)
		out, err := e.Compress(nil, m, codec.Setting{Codec: codec.LZ4}, nil)
		if err != nil {
			t.Fatal(err)
		}
		lz4 += float64(len(out)) / float64(len(m)) / n
		snap += float64(len(snappy.Encode(nil, m))) / float64(len(m)) / n
		size += float64(len(m)) / n
		least, most = min(least, len(m)), max(most, len(m))
	}
	t.Logf("lz4 %.2f %%, snappy %.2f %%, mean size %.0f, %d to %d", 100*lz4, 100*snap, size, least, most)
	if math.Abs(100*lz4-38.5) > 1 || math.Abs(100*snap-39.7) > 1 {
		t.Errorf("LZ4 leaves %.2f %%, Snappy %.2f %%; 38.5 and 39.7 were published", 100*lz4, 100*snap)
	}
	if least < MinSize || most > MaxSize {
		t.Errorf("menus have %d to %d bytes", least, most)
	}
}
