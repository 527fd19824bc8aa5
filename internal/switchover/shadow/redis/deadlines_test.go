package redis

import (
	"fmt"
	"testing"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// However many keys servers may have expired, only the latest of them are excused, and those that differ
// again and again.
func TestDoubtsAreBounded(t *testing.T) {
	p := &Protocol{}
	get := func(key string) *shadow.Operation { return &shadow.Operation{Keys: []string{nameOf("0", []byte(key))}} }
	p.deadlines.markDoubtful(subject{db: "0", key: "differs"})
	for i := range 3 * maxDoubtful {
		p.deadlines.markDoubtful(subject{db: "0", key: fmt.Sprint(i)})
		if i%1000 == 0 && !p.hasDoubtfulKey(get("differs")) {
			t.Fatalf("after %d keys, a key is doubted no more that differs again and again", i)
		}
	}
	for i := range maxDoubtful / 3 {
		if key := fmt.Sprint(3*maxDoubtful - 1 - i); !p.hasDoubtfulKey(get(key)) {
			t.Fatalf("key %s is not doubted", key)
		}
	}
	if p.hasDoubtfulKey(get("lost")) || p.hasDoubtfulKey(get("0")) {
		t.Error("all keys are doubted")
	}
}
