package store

import (
	"fmt"
	"testing"
)

// Each key belongs to one of three workers, and each worker has about a third of the keys.
func TestHashPart(t *testing.T) {
	if CRC16([]byte("123456789")) != 0x31C3 {
		t.Error("not the CRC of Redis Cluster")
	}
	if HashPart(1, 1) != nil {
		t.Error("one worker does not have all keys")
	}
	count := make([]int, 3)
	for i := range 3000 {
		owners := 0
		for k := range count {
			if HashPart(k+1, 3)(fmt.Appendf(nil, "key:%d", i)) {
				owners++
				count[k]++
			}
		}
		if owners != 1 {
			t.Fatalf("key:%d has %d workers", i, owners)
		}
	}
	for _, n := range count {
		if n < 850 || n > 1150 {
			t.Errorf("shares %v", count)
		}
	}
}
